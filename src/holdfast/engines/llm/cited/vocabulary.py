"""Owns the words that a statement may add to its source, those that mean the same, and those that mean the opposite."""

from holdfast.engines.search.text.analyser import stem, words


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in text.split())


PLAIN = frozenset(
    words(
        "above according actually additional aim answer ask approach aspect attribute based become behave behaviour "
        "belong below brief call case cause change come commit comment concern consist contain context currently "
        "define describe detail document documentation effect entry evidence example explain fact file find following "
        "follow further furthermore get given go happen hold implementation implement include indicate instead involve "
        "issue item kind lead line list located longer look main make material mean mention moreover move name namely "
        "need new note now number occur part perform place point practice problem project provide purpose "
        "question reason record refer relate release repository respectively result run say section see set show "
        "source "
        "specifically state step summary support tell therefore thing thus time turn type use using value various "
        "version "
        "via want way whereas whether within work write written author rule setting single together take taken "
        "whole handle still another change changelog history overview previously formerly former present meant said "
        "told made went came took"
    )
)
"""Words that carry a statement without saying much themselves."""

_IRREGULAR = (
    "mean meant|build built|send sent|lose lost|find found|give gave given|take took taken|run ran|begin began begun|"
    "write wrote written|know knew known|become became|break broke broken|grow grew grown|fall fell fallen|throw threw "
    "thrown|hold held|lead led|leave left|say said|tell told|think thought|bring brought|catch caught|make made|go "
    "went "
    "gone|come came|see saw seen|get got|spend spent|pay paid|buy bought|sell sold|teach taught|win won|speak spoke|"
    "drive drove|rise rose risen|show shown|hide hid hidden|draw drew drawn|deal dealt|keep kept|choose chose chosen|"
    "sleep slept|fight fought|seek sought|forget forgot|freeze froze frozen|swap swapped|bind bound|feed fed|meet met"
)
SAME = tuple(
    _stems(group)
    for group in (
        "fix fixed fixes repair mend solve resolve correct patch patched close closed closes",
        "bug hole vulnerability flaw problem issue defect fault weakness",
        "remove drop dropped delete discontinue abandon deletion removal",
        "move moved switch switched migrate migration replace replaced port ported",
        "crash crashed break broke broken breaks fail failed failure",
        "keep kept store stored retain save saved hold held persist stay stayed remain",
        "limit limited restrict cap ceiling maximum",
        "return returns give gives gave given answer answered respond yield reply",
        "person people user users",
        "night nightly overnight",
        "sign signed log logged login",
        "begin began begun start started open opens",
        "end ended finish close closes stop",
        "error exception",
        "back backed backup",
        "refuse refused reject rejected deny denied",
        "write writes wrote written",
        "read reads",
        "find found finds look lookup",
        "speed fast faster quick quicker",
        "render renders",
        "empty blank",
        "postgres postgresql",
        "database db",
        "configuration config configure",
        "repository repo",
        "documentation docs doc",
        "directory folder dir",
        "javascript js",
        "typescript ts",
        "authentication auth authenticate",
        "application app",
        "environment env",
        "function method",
        "parameter argument option",
        "author wrote written commit",
        "renew renewed renewal extend",
        "affect affected hit concern",
        "virus viruses malware",
        "choose chose chosen choice pick select prefer preferred favour instead rather decide decided decision",
        "create created make made",
        "send sent sends",
        "receive received get",
        "minute minutes",
        "signature sign",
        "purge clear wipe",
        "later afterwards subsequently",
        "allow permit let accept",
        "require required need needs mandatory must",
        # What a stemmer does not know.
        *_IRREGULAR.split("|"),
    )
)

OPPOSITES = tuple(
    (_stems(one), _stems(other))
    for one, other in (
        ("enable enabled enables on", "disable disabled disables off"),
        ("allow allowed permit permitted accept accepted", "forbid forbidden refuse refused reject rejected deny "
         "denied block blocked prohibit disallow"),
        ("increase increased raise raised grow grew up higher larger longer bigger more", "decrease decreased reduce "
         "reduced lower lowered down shrink shrank smaller shorter fewer less cut"),
        ("fast faster quick quicker speed", "slow slower slowed"),
        ("keep kept preserve preserved retain retained survive survived", "lose lost loses discard discarded"),
        ("fix fixed repair solve resolved", "break broke broken introduce introduced"),
        ("succeed succeeded pass passed", "fail failed fails crash crashed"),
        ("add added adds introduce introduced", "remove removed drop dropped delete deleted"),
        ("begin began start started open opens opened", "end ended stop stopped finish finished close closed closes"),
        ("before earlier", "after later afterwards"),
        ("minimum least", "maximum most"),
        ("required mandatory require", "optional optionally"),
        ("public", "private"),
        ("synchronous synchronously sync", "asynchronous asynchronously async"),
        ("read reads reading", "write writes writing"),
        ("encrypt encrypted", "decrypt decrypted"),
        ("upgrade upgraded", "downgrade downgraded"),
        ("send sent sends", "receive received receives"),
        ("same identical equal", "different differ unequal"),
        ("inside within", "outside"),
        ("merge merged", "split"),
        ("import imported", "export exported"),
        ("push pushed", "pull pulled"),
        ("client", "server"),
        ("true", "false"),
        ("oldest earliest first", "newest latest last"),
        ("safe secure", "unsafe insecure vulnerable"),
        ("better best", "worse worst"),
        ("approve approved", "reject rejected"),
        ("cheap cheaper", "expensive"),
        ("full", "empty"),
        ("manual manually hand", "automatic automatically"),
        ("temporary temporarily", "permanent permanently"),
        ("internal", "external"),
        ("ascending", "descending"),
        ("strict", "lenient"),
        ("locally local", "remote remotely"),
        ("win won", "lose lost"),
    )
)  # fmt: skip

BOUNDS = tuple(
    _stems(group)
    for group in (
        "all every each any everything everyone everybody",
        "always",
        "only solely exclusively just sole",
        "guarantee guaranteed ensure ensured",
        "fully completely entirely totally wholly complete full entire",
        "forever permanently permanent indefinitely",
        "exactly precisely exact",
        "impossible certainly definitely undoubtedly surely",
        "proven prove proved",
        "most mostly majority usually",
        "best",
        "worst",
        "first",
        "last latest newest",
        "oldest earliest",
        "fastest quickest",
        "slowest",
        "largest biggest greatest",
        "smallest least minimum",
        "highest maximum",
        "lowest",
        "safest",
        "immediately instantly",
        "significantly dramatically greatly substantially considerably massively",
        "twice double doubled",
        "half halved",
        "triple tripled",
        "random randomly",
        "must mandatory required",
    )
)
"""Words that say how far something goes; one of the same group has to stand in the source."""

PRONOUNS = _set("it them this that these those they one")
NEGATORS = _set("not no never without none neither nor cannot nothing nobody n't lack lacks lacked lacking")
WEAK_NEGATORS = frozenset(
    word
    for group in (
        "drop",
        "remove",
        "delete",
        "stop",
        "discontinue",
        "abandon",
        "deprecate",
        "forbid",
        "refuse",
        "exclude",
        "ignore",
        "skip",
        "avoid",
    )
    for word in (group, f"{group}s", f"{group}d", f"{group}ed", f"{group}ped", f"{group}ping", f"{group}ing")
) | {"unable", "missing", "absent", "removing", "refusing", "longer"}
HEDGES = _set(
    "may might could would should probably perhaps possibly likely maybe plan plans planned planning propose "
    "proposes proposed consider considers considered considering intend intends intended todo eventually "
    "suspect suspects suspected seems seem appears appear experimental someday hope hopes hopefully supposedly "
    "allegedly reportedly rumoured unclear unconfirmed untested potentially theoretically"
)
POSSIBLE = HEDGES | _set(
    "can possible let lets allow allows allowed permitted permits optional optionally able future unless if"
)
"""What a statement keeps a hedge with."""
PERIODS = _stems("second minute hour day night week month quarter year daily hourly weekly monthly yearly nightly")
"""How often or how long: another one is another fact."""
AT_LEAST = frozenset({"more than", "over", "above", "at least", "exceeding", "beyond"})
AT_MOST = frozenset({"less than", "fewer than", "under", "below"})
CAUSES = _set("because since due reason reasons caused causes thanks owing")
CHANGES = _stems(
    "move moved switch switched change changed migrate migrated raise raised increase increased reduce reduced lower "
    "lowered cut set up down port ported convert converted upgrade upgraded downgrade downgraded replace replaced go "
    "went rename renamed grow grew drop dropped"
)
VERSIONED = _stems(
    "version versions release releases released since until before after from to in by with of and or is fixed drop "
    "dropped tag support supported requires required require needs upgrade upgraded minimum number limit"
)
"""Words before a version that it is not the version of."""
