"""Owns a description of a database's schema that two databases can be compared by."""

from holdfast.storage.database import Tx

_POSTGRESQL = {
    "column": """
        SELECT table_name || '.' || column_name AS name,
            concat_ws(' ', udt_name, is_nullable, column_default, is_identity, generation_expression) AS definition
        FROM information_schema.columns WHERE table_schema = 'public'
    """,
    "index": "SELECT indexname AS name, indexdef AS definition FROM pg_indexes WHERE schemaname = 'public'",
    "constraint": """
        SELECT conrelid::regclass || '.' || conname AS name, pg_get_constraintdef(oid) AS definition
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    "trigger": """
        SELECT tgname AS name, pg_get_triggerdef(oid) AS definition FROM pg_trigger WHERE NOT tgisinternal
    """,
    "sequence": "SELECT sequencename AS name, data_type::text AS definition FROM pg_sequences",
    "extension": "SELECT extname AS name, extversion AS definition FROM pg_extension",
}


def description(tx: Tx) -> dict[tuple[str, str], str]:
    """Every table, column, index, constraint and trigger by kind and name."""
    if tx.dialect == "sqlite":
        rows = tx.all("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        return {(row["type"], row["name"]): row["sql"] or "" for row in rows}
    return {
        (kind, row["name"]): row["definition"] or "" for kind, query in _POSTGRESQL.items() for row in tx.all(query)
    }
