"""Proves which texts are refused as junk, and that facts of a few words are kept."""

import pytest

from holdfast.features.memory.writing.wording import category_of, junk_refusal

JUNK = """
lol
LOL!!
lmao
haha
hahahahaha
hehe
asdf
asdf qwer zxcv
qwer asdf
asdfgh
zxcvbn qwerty
poiu lkjh
sdfg dfgh fghj
aaaaaa
aaaa
zzzz zzzz
jkjkjkjk
111111
xxxxxxxxxxxx
hi there
hi
hey there!
heyyy
hello world
Hello everyone
good morning
good morning team
good night
thanks
thank you so much!
thanks a lot
ok
okay then
ok cool
k
yes
yep
no
nope
sure thing is fine
hmm
hmmmm
uh
wow
nice
great, thanks
awesome!
perfect
got it
sounds good
you're welcome
bye
see you later, bye
test
testing 123
test test
this is a test
foo bar baz
blah blah blah
idk
omg
sorry
TODO
tbd
n/a
null
lorem ipsum dolor sit amet
no results found
sdkfjhsdkfjh wqrtpsdf
!!!
...
"""
KEPT = """
Port 8080
Use pnpm
Vegan
UTC
MIT license
Go 1.22
tabs, not spaces
Bob is CTO
I'm Anna
Call me Otto
Mama lives in Ulm
Python
pnpm
nginx
btrfs on /data
grpc
k8s 1.31
Postgres 16
No sugar
No deploys on Fridays
Nice is my home town
I live in Nice
Test on Windows
Test everything twice
Run tests in CI
The test server is blue
Notes are in docs/
Say hi to Ben
Never say lol to customers
ok-http is our client
Thanks go to Eva for the logo
He said yes to the offer
asdf manages our tool versions
Use the QWERTY layout
Dvorak keyboard
Property tax is due in May
Tree pruning in March
We were on IPv4
XHTML
TLS 1.3
HTTPS only
JWT, RS256
RTX 4090
Room 204
Flight LH 400
Lena: 7
age 42
42 seats
Zzyzx Road 5
Łódź
東京オフィス
Büro: Köln
Hello Kitty is her favourite
Good Friday is a holiday
Great Dane, 5 years old
Bar opens at six
Foo Fighters fan
The null hypothesis holds
Cool storage: below 8 degrees
Sorry is written with two r
Right-hand drive
2026-11-18
""".strip().splitlines()


@pytest.mark.parametrize("text", JUNK.strip().splitlines())
def test_junk_is_refused(text: str) -> None:
    assert junk_refusal(text) is not None


@pytest.mark.parametrize("text", KEPT)
def test_a_fact_of_a_few_words_is_kept(text: str) -> None:
    assert junk_refusal(text) is None


@pytest.mark.parametrize(
    "text", ["ok danke", "merci", "hallo zusammen", "gracias!", "Guten Morgen", "спасибо", "了解です"]
)
def test_thanks_and_greetings_of_other_languages_are_junk(text: str) -> None:
    assert junk_refusal(text) is not None


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Ich bevorzuge kurze Antworten", "preference"),
        ("Mein Lieblingseditor ist Vim", "preference"),
        ("Je préfère le thé", "preference"),
        ("Bitte antworte immer auf Deutsch", "instruction"),
        ("Utilise toujours des tests", "instruction"),
        ("常に日本語で答えてください", "instruction"),
        ("Wir nutzen PostgreSQL", "fact"),
    ],
)
def test_a_category_is_told_in_other_languages(text: str, category: str) -> None:
    assert category_of(text) == category
