"""A short description of each row, in the order of the tables."""

from __future__ import annotations

from typing import Final

ROWS: Final = {
    "S01": "killed before each disk call",
    "S02": "killed at random times, again and again",
    "S03": "killed while recovering, up to five times in a row",
    "S04": "last record torn at each byte",
    "S05": "last batch, last sink commit torn at each byte",
    "S06": "power loss, unsynced sectors and names old or new",
    "S07": "old valid records after a hole",
    "S08": "every stop in the middle of a roll",
    "S09": "bits of the log flipped",
    "S10": "blocks of the log zeroed, stale, misplaced",
    "S11": "log files deleted, renamed, swapped",
    "S12": "queue files damaged",
    "S13": "index files damaged",
    "S14": "checkpoint, abort, meta data and JSON files damaged",
    "S15": "disk full at each call, a full file system",
    "S16": "file size limit, short writes",
    "S17": "one sync fails, each in turn, in three ways",
    "S18": "every sync fails from one on",
    "S19": "the disk cannot read",
    "S20": "errors of the disk while recovering from a crash",
    "S21": "the clock jumps",
    "S22": "no memory",
    "S23": "two writers, dead holders",
    "S24": "retention under readers",
    "S25": "readers race the writer",
    "S26": "a million messages, kill, start",
    "S27": "stop signals",
    "S28": "forged records in bodies, the record around them damaged",
    "S29": "a bit of topic, queueId or queueOffset flipped, at every place of a queue",
    "S30": "damaged stores read in every way: no answer is short in silence",
    "S31": "files of a running writer moved, replaced or deleted",
    "P01": "driver killed after the durable commit",
    "P02": "commit killed before each disk call",
    "P03": "Python worker killed in a task",
    "P04": "executor killed in a task",
    "P05": "two attempts write a task, the commit gets one",
    "P06": "an attempt that Spark gave up goes on writing",
    "P07": "replay with other partitions",
    "P08": "two drivers start on one checkpoint at once",
    "P09": "a driver resumes after another one's commits",
    "P10": "commit or abort raises",
    "P11": "a stream with a bug, restarted until it is complete",
    "P12": "source: data, queues, topics, restarts, retention, limits in any order",
    "P13": "the log was cut below the checkpoint",
    "P14": "a damaged record in the range",
    "P15": "bulk rebuild killed, two at once, beside an appender",
    "P16": "requeue killed at each disk call, twice at once, clocks jump",
    "P17": "a replay with other rows",
    "P18": "a query and 64 producers write one topic through a broker; broker, commit, driver or producers killed",
    "M08": "the NameServer is killed and comes back empty, brokers die or say nothing",
    "N01": "decoders of the wire protocol get bytes that are no requests",
    "N02": "mutated frames on live sockets beside a good client",
    "N03": "lengths, headers and values that cannot be",
    "N04": "frames that are announced and do not come",
    "N05": "peers that have died without a word",
    "N06": "clients that pull and do not read",
    "N07": "thousands of connections",
    "N08": "connections that come and go, ended by RST in the middle of a frame",
    "N09": "bodies and tables that decompress to far more than they take",
    "N10": "names that no topic and no group may have, through every request",
    "N11": "every request code without and with credentials, from another address",
    "N12": "signatures that are cut, changed, of another request, of another secret",
    "N13": "broker killed and stopped under load",
    "N14": "frames cut anywhere, and many frames at once",
    "N15": "the event loop under load: its lag is measured",
    "N16": "servers and clients in simulated time: cuts, silence, kills, suspended processes",
}

KILLS: Final = ("S01", "S02", "S03", "S21", "S23", "S26", "P01", "P02", "P03", "P04", "P15", "P16", "P18", "M08", "N13")
"""Rows that kill processes."""
POWER_LOSSES: Final = ("S06", "S07", "S17", "S18")
DAMAGE: Final = ("S09", "S10", "S11", "S12", "S13", "S14", "S28", "S29", "S30")
IMAGES: Final = (*POWER_LOSSES, *DAMAGE, "S04", "S05", "S08", "S19", "S20")
"""Rows whose trials are images of a store after a power loss, a stop or damage."""
SINK: Final = (
    *("P01", "P02", "P03", "P04", "P05", "P06", "P07", "P08", "P09"),
    *("P10", "P11", "P12", "P13", "P14", "P17"),
)
