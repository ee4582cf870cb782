"""All that predictors may look at of a job that waits or runs: group, account, resources, shrink-to-fit."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SCHEMA = "softwalltime"


def _seconds(name: str, comment: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), comment=comment)


def _text(name: str, comment: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), server_default="", nullable=False, comment=comment)


# All of them may be left out of an INSERT: a daemon of the version before may still write while hosts are upgraded.
def _columns() -> tuple[sa.Column[Any], ...]:
    return (
        _seconds("min_walltime", "least walltime of a shrink-to-fit job, seconds; null: it is none"),
        _seconds("max_walltime", "greatest walltime of a shrink-to-fit job, seconds"),
        sa.Column("mem", sa.BigInteger(), comment="memory requested, bytes"),
        sa.Column("ngpus", sa.Integer(), comment="GPUs requested"),
        sa.Column("interactive", sa.Boolean(), comment="whether it is an interactive job; null: not recorded"),
        _text("group_name", "the group that it runs under"),
        _text("account", "the account string given at submission"),
        _text("select_spec", "the chunks requested"),
        _text("place", "the placement requested for the chunks"),
    )


def upgrade() -> None:
    for column in _columns():
        op.add_column("current_jobs", column, schema=SCHEMA)


def downgrade() -> None:
    for column in _columns():
        op.drop_column("current_jobs", column.name, schema=SCHEMA)
