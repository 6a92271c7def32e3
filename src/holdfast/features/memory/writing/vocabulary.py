"""Owns the words that the comparison of memories knows: what means the same, says little, or says the opposite."""

from importlib import resources


def _sections() -> dict[str, list[list[str]]]:
    """The sections of words.txt: their lines, word by word."""
    found: dict[str, list[list[str]]] = {}
    lines: list[list[str]] = []
    for line in (resources.files(__package__) / "words.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            lines = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            lines.append(line.split())
    return found


_SECTIONS = _sections()


def _words(section: str) -> frozenset[str]:
    return frozenset(word for line in _SECTIONS[section] for word in line)


SYNONYMS = {word: line[0] for line in _SECTIONS["same"] for word in line}
OPPOSITES = tuple(map(frozenset, _SECTIONS["opposite"]))
CONVERSES = tuple(map(frozenset, _SECTIONS["converse"]))
NEGATED = {line[0]: line[1] for line in _SECTIONS["negated"]}
STOP = _words("stop")
WEAK_NOUNS = _words("weak nouns")
WEAK = WEAK_NOUNS | _words("weak")
CLASS_NOUNS = _words("class nouns")
NEGATIONS = _words("negations")
ADDITIVE = _words("additive")
EXCLUSIVE_ROLES = _words("roles")
TRAITS = _words("traits")
VERBS = ADDITIVE | EXCLUSIVE_ROLES | _words("verbs")
INSTRUCTIONS = _words("instructions")
NOUNS_TOO = _words("nouns too")
AUXILIARIES = _words("auxiliaries")
BE = _words("be")
PREPOSITIONS = _words("prepositions")
SCOPE_PREPOSITIONS = _words("scope prepositions")
SCOPES = _words("scopes")
PRONOUNS = _words("pronouns")
DETERMINERS = _words("determiners")
CHATTER = _words("chatter")
FILLERS = _words("fillers")

PHRASES: tuple[tuple[str, str], ...] = (
    (r"no longer|not any ?more", "not"),
    (r"(?:do(?:es)?n't|do(?:es)? not|did not|didn't) (?:any ?more)", "not"),
    (r"at most|no more than|not more than|up to|maximum of|(?:is|are) limited to|limited to|capped at", "maximum"),
    (r"at least|no less than|not less than|minimum of", "minimum"),
    (r"more than|greater than|in excess of", "above"),
    (r"less than|fewer than|lower than", "below"),
    (r"(?:has|have|had|needs?|is|are) to(?= [a-z])", "must"),
    (r"may not|must not|should not|shall not|is not allowed to|are not allowed to", "never"),
    (r"s3://", "S3 bucket "),
    (r"kicks? off|kicked off|gets? going", "start"),
    (r"takes? place|took place", "happen"),
    (r"by hand", "manually"),
    (r"one (?:after (?:another|the other)|at a time|by one)|serially|in sequence", "sequential"),
    (r"in person|face to face|on[ -]site", "onsite"),
    (r"full[ -]time", "fulltime"),
    (r"part[ -]time", "parttime"),
    (r"from home", "remotely"),
    (r"web ?(?:app(?:lication)?s?|front[ -]?end)", "webapp"),
    (r"front[ -]end", "frontend"),
    (r"back[ -]end", "backend"),
    (r"end[ -]to[ -]end|e2e", "endtoend"),
    (r"web ?sites?", "site"),
    (r"stand[ -]ups?", "standup"),
    (r"sign[ -]?offs?", "signoff"),
    (r"around the clock|24/7|24x7|day and night", "every hour"),
    (r"in charge of|responsible for", "owns"),
    (r"pull requests?|merge requests?|prs?(?= |$|[.,;])", "pullrequest"),
    (r"time[sd]? out|timing out", "timeout"),
    (r"git ?hub actions(?: workflows?)?|gh actions|gha", "GithubActions"),
    (r"git ?lab(?:[ -]ci)?(?: pipelines?)?(?=[ .,;]|$)", "GitLab"),
    (r"checks? with|gets? in touch with", "ask"),
    (r"goes by|go by|is (?:called|named)|are (?:called|named)|call me", "called"),
    (r"(?:'s)? names? (?:is|are)", " called"),
    (r"(?:go(?:es)?|went) to (?:bed|sleep)", "sleeps"),
    (r"(?:hand|turn|give)s? in", "submit"),
    (r"looks? after|takes? care of", "maintains"),
    (r"(?:is|are|was|were) born on", "birthday is"),
    (r"(?:turn|switch)(?:e?s|ed|ing)? off", "disabled"),
    (r"(?:turn|switch)(?:e?s|ed|ing)? on", "enabled"),
    (r"(?:is|are) out of order", "is broken"),
    (r"finds? out", "discovers"),
    (r"get(?:s|ting)? rid of", "deletes"),
    (r"carr(?:y|ies|ied) out", "performs"),
    (r"point(?:s|ed)? out", "mentions"),
    (r"get(?:s)? up", "wakes"),
    (r"is working|are working", "works"),
    (r"a lot of", "many"),
    (r"continuous integration", "ci"),
    (r"continuous (?:deployment|delivery)", "cd"),
    (r"(?:sign|log)(?:s|ged|ned|ging)? (?:in|on)(?:to)?", "login"),
    (r"(?:sign|log)(?:s|ged|ned|ging)? (?:out|off)(?= of|$|[.,;])", "logout"),
    (r"roll(?:s|ed|ing)? back", "revert"),
    (r"roll(?:s|ed|ing)? out", "deploy"),
    (r"set(?:s|ting)? up", "configure"),
    (r"head ?office|headquarters", "hq"),
    (r"virtual machines?", "vm"),
    (r"load balancers?", "loadbalancer"),
    (r"environment variables?", "envvar"),
    (r"env vars?", "envvar"),
    (r"cell ?phone|mobile phone|smartphone", "phone"),
    (r"known as", "called"),
    (r"as soon as", "when"),
    (r"(?:is|are|being) in use", "is used"),
    (r"makes? use of", "uses"),
    (r"command line", "cli"),
    (r"(?:is|are) (?:situated|located|found)|can be found|(?:you|we)(?: can| will)? find", "is"),
    (r"(?:is|are|stays?|remains?) valid for|ha(?:s|ve) a (?:lifetime|ttl) of", "expire after"),
    (
        r"(?:must|may|should|can|shall|do|does)(?:n't| not) (?:exceed|go (?:over|above|beyond))|never exceeds?",
        "maximum",
    ),
    (r"(?:must|may|should|can|shall)(?:n't| not) be (?:longer|larger|bigger|higher|more|greater) than", "maximum"),
    (
        r"(?:must|may|should|can|do|does)(?:n't| not) (?:fall|drop|go|be) (?:below|under)|never drops? below",
        "minimum",
    ),
    (r"(?:do not|don't|never) forget to|(?:make|be) sure (?:to|that|you)|remember to", "please"),
    (r"(?<=or )(?:less|fewer)", "maximum"),
    (r"half an hour", "30 minutes"),
    (r"an hour and a half|one and a half hours", "90 minutes"),
    (r"(?:a )?quarter of an hour", "15 minutes"),
    (r"a fortnight|14 days", "2 weeks"),
    (r"o'clock", "hours"),
    (
        r"on weekdays|(?:on |every )?(?:working|business|work) ?days?|(?:from )?mondays? (?:to|through) fridays?",
        "every weekday",
    ),
    (r"prior to|ahead of", "before"),
    (r"due to|owing to|on account of", "because"),
    (r"in order to", "to"),
    (r"goes? (?:out|live)|went (?:out|live)", "happen"),
    (r"reports? (?:directly )?to", "'s manager is"),
    (r"(?:'s)? home(?: ?town)? is in", " lives in"),
    (r"new (?:hires?|joiners?|starters?)", "new employees"),
    (r"parking (?:garages?|lots?)|car ?parks?", "carpark"),
    (r"load[ -]?balanc(?:es?|ed|ing)", "loadbalancer"),
    (r"on[ -]call", "oncall"),
    (r"wi-?fi|wireless network", "wifi"),
    (r"two-factor(?: auth(?:entication)?)?|2fa|multi-factor(?: auth(?:entication)?)?", "MFA"),
    (r"single sign[ -]on", "SSO"),
    (r"amazon web services", "AWS"),
    (r"google cloud(?: platform)?", "GCP"),
    (r"(?:visual studio|vs) code", "VSCode"),
    (r"(?:microsoft|ms) teams", "MSTeams"),
    (r"human resources", "HR"),
    (r"quality assurance", "QA"),
    (r"chief executive(?: officer)?", "CEO"),
    (r"user interface", "UI"),
    (r"https?(?: status)?(?: code)?(?= \d{3}\b)", "status"),
    (r"(?:is|am|are) fluent in", "speaks"),
    (r"can(?:'t|not) stand", "hates"),
    (r"(?:is|am|are) (?:a (?:big |great )?fan of|fond of|keen on)", "likes"),
    (r"(?:do(?:es)?n't|do(?:es)? not|never) eats? meat|eats? no meat", "am vegetarian"),
    (r"append[ -]only|(?:is |are )?never (?:changed|modified) (?:or|and) (?:deleted|removed)", "immutable"),
    (r"throttl(?:es?|ed|ing)", "rate limit"),
    (r"(?:is|are) scheduled (?:for|on|at)", "is on"),
    (
        # What is done again and again removes; what 'was removed' is no longer there.
        r"(?:gets?|is|are|be|being) removed(?= (?:by|after|when|once|every|each|at|nightly|daily|weekly|monthly|auto))",
        "are deleted",
    ),
    (r"(?:(?:must|may|should|can|do|does)(?:n't| not)|(?:(?:must|may|should|can) )?never) leaves?", "must stay within"),
)
"""Several words that mean one, before anything else is read."""

CHANGES = (
    r"moved? (?:to|from|away)|moves to|now|no longer|not any ?more|any ?more|switched|changed to|replaced|replaces"
    r"|migrated|renamed|deprecated|stopped|used to|previously|formerly|as of|since|from now on|dropped|reverted"
    r"|became|is gone|has left|superseded|obsolete|reversed|undone|updated to|upgraded|downgraded|postponed|rescheduled"
    r"|delayed|again"
)
BECOMES = (
    r"(?:has |have |had |is |are |was |were |got |been )*(?:moved|moves?|switched|switche?s|migrated|upgraded"
    r"|downgraded|updated|changed|renamed|postponed|rescheduled|delayed|cut|raised|reduced|increased|lowered"
    r"|brought forward|pushed back|extended|shortened)(?: over| back)? (?:to|until)"
)
"""What says that something is different now, and how: read as 'is' with a change."""
