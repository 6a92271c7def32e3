"""Proves which texts hold a credential, and that talk about credentials is not taken for one."""

import pytest

from holdfast.core.text.secrets_scan import first_secret_kind

# Written in pieces, so that no scanner takes this file for a leak.
HELD = [
    ("AWS access key id", "AKIA" + "QYLPMN5HHHFPZAM2"),
    ("API key", "AWS_SECRET_ACCESS_KEY=" + "wJblrXVtnFEMJ/K7MDFNG/bPxRfjCYfZQ3nLp8Ks"),
    ("GitHub token", "github_pat_" + "11ABCDEFG0abcdefghijkl_mnop"),
    ("GitLab token", "glpat-" + "abcdEFGH1234ijkl5678"),
    ("Slack webhook", "https://hooks.slack.com/" + "services/T0000AAAA/B0000AAAA/abcdefghijklmnopqrstuvwx"),
    ("OpenAI key", "sk-" + "abcdefghijklmnopqrst1234"),
    ("Google API key", "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"),
    ("Stripe key", "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"),
    ("private key", "-----BEGIN OPENSSH " + "PRIVATE KEY-----"),
    ("password", '{"db_password": "' + 'Tr0ub4dor&3"}'),
    ("password", "the password for the staging database is " + "Winter2024!"),
    ("bearer token", "Authorization: Bearer " + "a8Fk29dKq0Zx7Lm3Pq"),
    ("secret", "client_secret=" + "abcd1234efgh5678"),
]
OPENS = """
wifi code is sunflower42
The wifi code is 83920174
wi-fi password: BlueHeron7
Our WiFi password is "correct horse battery"
wifi key = 9f8e7d6c5b
the guest wifi password is Tulip-2231
The wifi code is marmalade
The code for the wifi is 7788-9900
door code is 4711
The door code is 4711#
Front door code: 2580
door code 9182
The code for the door is 1357
The code to the front door is 1357
gate code is 0852
garage code is 77412
The alarm code is 9921
alarm code at the office is 9921
The code for the alarm is 3344
PIN is 4821
PIN: 4821
My card PIN is 4821
the pin code is 4821
my phone passcode is 135790
The passcode is 135790
passcode: 48-15-16
The safe combination is 12-34-56
The combination to the safe is 12-34-56
Locker combination: 24 8 16
SIM PUK is 12345670
My voicemail PIN is 9087
The verification code is 482913
recovery code is 8F2K-99QP
The access code for the archive is 55512
building code is 1928*
key box code is 6060
The laptop password is Quokka!9
""".strip().splitlines()
OPENS_NOTHING = """
The wifi code is on the fridge
The wifi password is printed on the router
The wifi password is required
The wifi password changes every month
The wifi key is in the manual
Ask Dana for the wifi code
The door code is changed monthly
The door code is known to the caretaker
The door code has 4 digits
The door code is 4 digits long
The alarm code is 6 digits
PIN must have 4 digits
The PIN is stored hashed
PIN: 4-6 digits
The passcode is six digits
The passcode is optional
The access code is reviewed by security
The access code is in src/access.py
The lock code is 2000 lines long
The zip code is 90210
The postal code is 10115
The country code is 0049
The error code is 40401
The status code is 4040
The exit code is 1337
The discount code is SAVE20
The area code is 02079
The source code is public
The security code is audited
GPIO pin is 13
Pin Node to 18.17.1
The verification code expires after 600 seconds
The backup code is in backup.py
The login code is shared with the app
The safe is in room 1204
wifi code is <your code>
wifi password: ********
The card PIN is never stored
The key to the house is with the neighbours
""".strip().splitlines()
DOCUMENTED = [
    "The docs use AKIA" + "IOSFODNN7EXAMPLE",
    "aws_access_key_id = AKIA" + "I44QH8DHBEXAMPLE",
    "ASIA" + "IOSFODNN7EXAMPLE is temporary",
    "AIDA" + "CKCEVSQ6C2EXAMPLE is a user",
    "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "aws_secret_access_key = " + "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY",
    "Stripe's docs show sk_test_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "sk_test_" + "BQokikJOvBiI2HlWgH4olfQ2",
    "jwt.io shows eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2"
    "MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    "Azurite: AccountKey=" + "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "Authorization: Basic " + "QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    "ghp_" + "x" * 36,
    "github_pat_" + "X" * 30,
    "glpat-" + "x" * 20,
    "xoxb-" + "not-a-real-token-this-will-not-work",
    "https://hooks.slack.com/" + "services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "sk-" + "x" * 40,
    "sk-proj-" + "your-key-here-example-0000",
    "AIza" + "X" * 35,
    "SG." + "x" * 20 + "." + "x" * 20,
    "npm_" + "0" * 36,
    "hf_" + "x" * 34,
]
HARMLESS = [
    "Passwords must have at least 12 characters and a digit",
    "The API key rotates weekly; see the runbook",
    "token: refreshed hourly",
    "secret = settings.jwt_secret",
    "password=${DB_PASSWORD}",
    "export API_KEY=<your key here>",
    "postgres://user:password@localhost/db is the documented example",
    "The commit is 3f2a9c1d7e8b4a6f9c0d1e2f3a4b5c6d7e8f9a0b",
    "max_tokens: 16000 and the token budget resets on Monday",
    "scikit-learn and sk-learn-contrib are packages",
    "The access token is stored in the keychain",
]


@pytest.mark.parametrize(("kind", "text"), HELD)
def test_a_credential_is_named_by_its_kind(kind: str, text: str) -> None:
    assert first_secret_kind([f"Before it. {text} and after it."]) == kind


@pytest.mark.parametrize("text", HARMLESS)
def test_talk_about_credentials_is_not_one(text: str) -> None:
    assert first_secret_kind([text]) is None


@pytest.mark.parametrize("text", OPENS)
def test_what_opens_a_door_or_a_network_is_a_credential(text: str) -> None:
    assert first_secret_kind([text]) in ("passcode", "password", "API key")
    assert first_secret_kind([f"Before it. {text}"]) is not None


@pytest.mark.parametrize("text", OPENS_NOTHING)
def test_talk_about_codes_is_not_one(text: str) -> None:
    assert first_secret_kind([text]) is None


@pytest.mark.parametrize("text", DOCUMENTED)
def test_a_key_that_a_vendor_prints_as_an_example_is_not_one(text: str) -> None:
    assert first_secret_kind([text]) is None


def test_a_documented_key_does_not_cover_up_a_real_one_beside_it() -> None:
    for documented in DOCUMENTED:
        assert first_secret_kind([f"{documented} {HELD[0][1]}"]) == "AWS access key id"


def test_the_first_of_several_texts_is_named() -> None:
    assert first_secret_kind(["nothing", HELD[0][1], HELD[2][1]]) == "AWS access key id"
    assert first_secret_kind([]) is None


@pytest.mark.parametrize(
    "text",
    [
        "Das Passwort für den Server lautet Sommer2024!",
        "Der PIN der Alarmanlage ist 4711",
        "mot de passe: Tr0ub4dor&3",
        "la contraseña del wifi es gato1234",
        "Пароль: Qwerty123",
        "密码是 abc123!x",
        "パスワードはhunter2x9です",
    ],
)
def test_a_password_is_one_in_other_languages(text: str) -> None:
    assert first_secret_kind([text]) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Das Kennwort ist im Tresor",
        "Das Passwort ist 12-stellig",
        "Passwort zurücksetzen dauert 5 Minuten",
        "Le mot de passe est obligatoire",
        "mot de passe : minimum 12 caractères",
        "La clave primaria: id_2",
    ],
)
def test_talk_about_passwords_in_other_languages_is_none(text: str) -> None:
    assert first_secret_kind([text]) is None
