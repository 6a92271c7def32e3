"""Owns statements about other sources: a third part, and the last, which nothing was tuned on."""

from holdfast.engines.llm.citations import ReadSource
from tests.engines.llm.cited.statements import Statement

README = ReadSource(
    1,
    "README.md",
    "kiln:README.md#L1-L40",
    "# Kiln\n\nKiln builds static sites from Markdown. It was started by Noor Haddad in 2019 as a replacement for "
    "Jekyll.\n\n"
    "## Speed\n\nA site of 10,000 pages builds in 4.2 seconds on a laptop with eight cores. Incremental builds take "
    "less than 300 ms.\nThemes written in Go templates render twice as fast as those in Liquid.\n\n"
    "## Requirements\n\nKiln needs Go 1.21 or newer. Windows is not supported. Images are resized with libvips, which "
    "has to be\ninstalled separately; without it they are copied unchanged.\n\n"
    "## Configuration\n\nSettings live in `kiln.toml`. The server listens on port 1313 unless `--port` says otherwise. "
    "Drafts are left\nout of production builds. Plugins run in a WASM sandbox and cannot reach the network.\n",
    about="README.md kiln",
    lines=(1, 40),
)
REVERT = ReadSource(
    2,
    'Revert "Cache rendered pages in memory"',
    "kiln@4fe1c22",
    'Revert "Cache rendered pages in memory"\n\nThis reverts commit 91bd0aa. The cache grew without limit, so builds '
    "of large sites were killed after\nabout 20 minutes. We will try again with an LRU cache of at most 512 MB once "
    "#340 is "
    "merged.\n\nM internal/render/cache.go +0 -118",
    about="Tomas Lindqvist 2022-06-30 4fe1c22 kiln commit",
)
ISSUE = ReadSource(
    3,
    "Feeds contain relative links",
    "kiln#212",
    "Feeds contain relative links\n\nState: closed\n\nLabels: bug, feeds\n\nRSS readers cannot resolve relative "
    "links, so "
    "images are missing in Feedly and NetNewsWire.\n\nPriya Raman: Atom feeds are fine, since they carry `xml:base`. "
    "Fixed for RSS by writing absolute URLs in 0.9.3; JSON Feed is not affected.",
    about="Priya Raman 2021-03-08 212 kiln issue #212",
)
CODE = ReadSource(
    4,
    "internal/render/pool.go",
    "kiln:internal/render/pool.go#L10-L34",
    "// Pool renders pages on as many goroutines as there are cores.\ntype Pool struct {\n\tjobs chan Page\n\tsize "
    "int\n}"
    "\n\n// NewPool starts the workers; size 0 means runtime.NumCPU().\nfunc NewPool(size int) *Pool {\n\tif size "
    "== 0 {\n"
    "\t\tsize = runtime.NumCPU()\n\t}\n\tp := &Pool{jobs: make(chan Page, 64), size: size}\n\tp.start()\n\treturn "
    "p\n}\n\n"
    "// Close waits for running jobs and drops those that are queued.\nfunc (p *Pool) Close() {\n\tclose(p.jobs)\n"
    "\tp.wait()\n}\n",
    about="internal/render/pool.go kiln",
    lines=(10, 34),
)
NOTES = ReadSource(
    5,
    "Harbor 3.2",
    "harbor@v3.2.0",
    "Harbor 3.2\n\n## Highlights\n\n* Webhooks are retried up to eight times with exponential backoff, starting at 30 "
    "seconds. (@mlund)\n* The admin console no longer loads fonts from Google, for privacy.\n* `harborctl restore` "
    "verifies checksums before it writes anything.\n\n## Breaking\n\n* SQLite databases created before 2.8 must be "
    "upgraded with 3.1 first.\n* The `token` query parameter was removed; send an `Authorization` header instead.\n\n"
    "## Known problems\n\n* On macOS, file watching may miss renames. We have not found the cause.\n* Memory use "
    "grows by "
    "about 5% with 1,000 webhooks, compared with 3.1.",
    about="harbor 2025-04-17 v3.2.0 release",
)
THREAD = ReadSource(
    6,
    "Move the queue from RabbitMQ to Postgres",
    "harbor#88",
    "Move the queue from RabbitMQ to Postgres\n\nState: merged\n\nWe run RabbitMQ for forty messages a minute. "
    "Postgres "
    "with SKIP LOCKED handles that easily and is one service less to operate. Delivery stays at-least-once.\n\nIngrid "
    "Solberg: Latency went from 3 ms to 11 ms in my tests, which nobody will notice.\n\nOmar Diallo: I would rather "
    "keep "
    "RabbitMQ, but I will not block this.",
    about="Ingrid Solberg 2024-09-02 88 harbor pull request #88",
)
OTHER_SOURCES = {source.number: source for source in (README, REVERT, ISSUE, CODE, NOTES, THREAD)}

THIRD_PART = (
    # True, in the source's words or in others.
    Statement("true", "Kiln is a static site builder for Markdown, started by Noor Haddad in 2019 [1].", True),
    Statement("true", "It was meant to replace Jekyll [1].", True),
    Statement("true", "A site with 10,000 pages takes 4.2 seconds to build on an eight-core laptop [1].", True),
    Statement("true", "Incremental builds take under 300 ms [1].", True),
    Statement("true", "Kiln requires Go 1.21 or newer, and Windows is not supported [1].", True),
    Statement("true", "Without libvips, images are copied unchanged [1].", True),
    Statement("true", "By default the server listens on port 1313, which `--port` changes [1].", True),
    Statement("true", "Plugins are sandboxed with WASM and have no access to the network [1].", True),
    Statement(
        "true",
        "Tomas Lindqvist reverted the in-memory page cache on 30 June 2022 because it grew without limit [2].",
        True,
    ),
    Statement("true", "Builds of large sites were killed after about 20 minutes [2].", True),
    Statement("true", "An LRU cache of at most 512 MB may follow once #340 is merged [2].", True),
    Statement("true", "RSS readers could not resolve relative links, so images were missing in Feedly [3].", True),
    Statement("true", "It was fixed in 0.9.3 by writing absolute URLs [3].", True),
    Statement("true", "Atom feeds were not affected because they carry `xml:base` [3].", True),
    Statement("true", "`NewPool` uses `runtime.NumCPU()` workers when the size is 0 [4].", True),
    Statement("true", "Closing the pool waits for running jobs and drops queued ones [4].", True),
    # Not true.
    Statement("negated", "Windows is supported [1]."),
    Statement("negated", "Images are not resized with libvips [1]."),
    Statement("negated", "Plugins can reach the network [1]."),
    Statement("negated", "JSON Feed is affected too [3]."),
    Statement("negated", "Drafts are part of production builds [1]."),
    Statement("number", "A site of 10,000 pages builds in 2.4 seconds [1]."),
    Statement("number", "Builds were killed after about 20 seconds [2]."),
    Statement("number", "The server listens on port 8080 [1]."),
    Statement("number", "The jobs channel holds 128 pages [4]."),
    Statement("version", "Kiln needs Go 1.12 or newer [1]."),
    Statement("version", "Relative links in feeds were fixed in 0.9.2 [3]."),
    Statement("date", "The cache was reverted in July 2022 [2]."),
    Statement("date", "Kiln was started in 2021 [1]."),
    Statement("name", "Kiln was started by Tomas Lindqvist [1]."),
    Statement("name", "Kiln was started as a replacement for Hugo [1]."),
    Statement("name", "Atom feeds contained relative links that readers could not resolve [3]."),
    Statement("name", "`NewPool` waits for running jobs and drops those that are queued [4]."),
    Statement("name", "Images are resized with ImageMagick [1]."),
    Statement("overclaim", "Kiln is the fastest static site builder [1]."),
    Statement("overclaim", "The cache is limited to 512 MB [2]."),
    Statement("overclaim", "All builds were killed after about 20 minutes [2]."),
    Statement("overclaim", "Images were missing in every feed reader [3]."),
    Statement("overclaim", "Plugins run in a WASM sandbox for reasons of compliance [1]."),
    Statement("comparison", "Themes in Liquid render twice as fast as those in Go templates [1]."),
    Statement("comparison", "Incremental builds take more than 300 ms [1]."),
    Statement("comparison", "Jekyll is a replacement for Kiln [1]."),
    Statement("comparison", "Closing the pool drops running jobs and waits for those that are queued [4]."),
)

LAST_PART = (
    # True, in the source's words or in others.
    Statement("true", "Harbor 3.2 retries webhooks up to eight times, beginning at 30 seconds [5].", True),
    Statement("true", "For privacy, the admin console stopped loading fonts from Google [5].", True),
    Statement("true", "Checksums are verified by `harborctl restore` before anything is written [5].", True),
    Statement("true", "SQLite databases from before 2.8 have to be upgraded with 3.1 first [5].", True),
    Statement("true", "The `token` query parameter is gone; use the `Authorization` header instead [5].", True),
    Statement("true", "Renames may be missed by file watching on macOS [5].", True),
    Statement("true", "The queue moved from RabbitMQ to Postgres, which is one service less to operate [6].", True),
    Statement("true", "Ingrid Solberg measured a latency of 11 ms, up from 3 ms [6].", True),
    Statement("true", "Omar Diallo preferred to keep RabbitMQ but did not block the change [6].", True),
    Statement("true", "Delivery is still at-least-once [6].", True),
    # Not true.
    Statement("negated", "The admin console loads fonts from Google [5]."),
    Statement("negated", "Delivery is not at-least-once any more [6]."),
    Statement("negated", "The cause of the missed renames was found [5]."),
    Statement("number", "Webhooks are retried up to thirty times [5]."),
    Statement("number", "Latency went from 11 ms to 3 ms [6]."),
    Statement("number", "RabbitMQ handled forty messages a second [6]."),
    Statement("number", "Memory use grows by about 50% with 1,000 webhooks [5]."),
    Statement("version", "SQLite databases created before 3.1 must be upgraded first [5]."),
    Statement("version", "Harbor 2.8 retries webhooks up to eight times [5]."),
    Statement("date", "Harbor 3.2 was released in April 2024 [5]."),
    Statement("name", "Omar Diallo moved the queue to Postgres [6]."),
    Statement("name", "The queue moved to Kafka [6]."),
    Statement("name", "On Windows, file watching may miss renames [5]."),
    Statement("name", "`harborctl backup` verifies checksums before it writes anything [5]."),
    Statement("overclaim", "Delivery became exactly-once with Postgres [6]."),
    Statement("overclaim", "File watching always misses renames on macOS [5]."),
    Statement("overclaim", "Everybody agreed to move the queue to Postgres [6]."),
    Statement("overclaim", "Fonts are no longer loaded from Google because of a lawsuit [5]."),
    Statement("comparison", "Memory use shrinks by about 5% with 1,000 webhooks [5]."),
    Statement("comparison", "Postgres has a lower latency than RabbitMQ [6]."),
    Statement("comparison", "`harborctl restore` writes everything before it verifies checksums [5]."),
    Statement("comparison", "The queue moved from Postgres to RabbitMQ [6]."),
)
