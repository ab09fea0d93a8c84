"""The bugs: each breaks one behaviour that a test protects. Add a bug here before you fix it."""

from __future__ import annotations

from typing import Final

from tests.planted.planting import SEEDS, Bug, Change

STORE: Final = "tests/store"
ROWS: Final = "tests/reliability"
BODIES: Final = f"{ROWS}/network/test_bad_bodies.py"
CONSUME: Final = "tests/rocketflow/client/consume"
KAFKA: Final = "tests/rocketflow/kafka"
POWER: Final = f"{ROWS}/test_power_loss.py::test_power_loss"
BESIDE: Final = "tests/rocketflow/spark/test_store_writes.py"
FAILING: Final = f"{ROWS}/test_failing_syncs.py"
PROFILES: Final = "tests/rocketflow/cli/test_profiles.py"
REFUSALS: Final = "tests/rocketflow/cli/test_network_refusals.py"
PRODUCE: Final = "tests/rocketflow/client/produce"
PULL: Final = "tests/rocketflow/client/pull"
PUSH: Final = "tests/rocketflow/client/push"
NETWORK: Final = "tests/rocketflow/spark/source/network"
TOGETHER: Final = "tests/rocketflow/broker/test_sends_together.py"
ENDS: Final = "tests/rocketflow/broker/test_ends_together.py"
SIGNED: Final = "tests/rocketflow/broker/test_signed_sends.py"
OPERATORS: Final = "tests/rocketflow/broker/test_operator_requests.py"
CHANGES: Final = "tests/rocketflow/broker/test_topic_and_group_changes.py"
KEPT: Final = "test_a_change_of_a_topic_keeps_the_attributes_that_it_does_not_name"
PUTS: Final = "tests/rocketflow/broker/test_put_gatherer.py"
ANSWERS: Final = "tests/rocketflow/broker/test_answers.py"
WAITING: Final = "tests/rocketflow/broker/test_waiting_puts.py"
SILENT: Final = "tests/rocketflow/aio/test_silent_clients.py"
TABLES: Final = "tests/rocketflow/broker/test_tables.py"
LEAVES: Final = "test_no_byte_of_a_message_leaves_for_an_account_that_may_not_read_its_topic"
DENIED: Final = f"{ROWS}/network/test_denied_records.py::{LEAVES}"
ASKED: Final = "test_producers_are_asked_about_half_messages_of_topics_that_they_may_publish_to"
REPLIES: Final = "test_a_reply_reaches_the_client_whose_request_its_sender_may_read"
TRANSACTIONS: Final = "tests/rocketflow/broker/test_transactions.py"
LATE: Final = (
    f"{ROWS}/network/test_transactions.py::test_late_answer_to_an_earlier_question_and_a_later_one_are_one_decision"
)
UNAVAILABLE: Final = "    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,\n"
SENT: Final = "tests/rocketflow/broker/test_sent_inputs.py"
PROPERTIES: Final = "tests/rocketflow/broker/test_client_properties.py"
WRITES: Final = "tests/rocketflow/broker/test_table_writes.py"
ODD_INPUTS: Final = f"{STORE}/model/test_odd_inputs.py"
ODD: Final = f"{ODD_INPUTS}::test_the_store_answers_as_rocketmq_except_where_a_reason_is_given"
ENCODED: Final = f"{STORE}/kernel/test_encode_rows.py"
UNITS: Final = f"{STORE}/kernel/test_dispatched_rows.py"
COMPILED_PUTS: Final = f"{STORE}/kernel/test_puts.py"
ROUTED: Final = f"{STORE}/kernel/test_put_route.py"
JUDGED: Final = f"{STORE}/kernel/test_prepared_rows.py"
BEGINS: Final = "test_store_is_readable_whose_log_begins_while_a_reader_looks_at_its_queues"

BUGS: Final = (
    # -- start and stop of servers
    Bug(
        "failed-start-not-undone",
        "a server whose start fails keeps what it has begun, such as the lock of its store",
        [
            Change(
                "                    await self.stop()\n                except UncleanStopError as unclean:",
                "                    pass\n                except UncleanStopError as unclean:",
            )
        ],
        ["tests/rocketflow/aio/test_steps.py", "tests/rocketflow/broker/test_steps.py"],
    ),
    Bug(
        "stop-ends-at-a-late-step",
        "what a stop still had to do is not done after a step that was late",
        [
            Change(
                "                is_late = True\n",
                "                is_late = True\n                self._begun.clear()\n",
            )
        ],
        ["tests/rocketflow/aio/test_steps.py", "tests/rocketflow/broker/test_steps.py"],
    ),
    Bug(
        "offsets-saved-late",
        "a stop saves offsets after steps that can hang",
        [Change('            Step("offsets before the rest", None, save, _FIRST_SECONDS),\n', "")],
        ["tests/rocketflow/broker/test_steps.py"],
    ),
    # -- directories of stores: their locks and their places
    Bug(
        "only-the-root-is-locked",
        "a store with another root and the same log directory is opened while the first one writes",
        [Change("                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "                pass\n")],
        [f"{STORE}/engine/test_shared_directories.py"],
    ),
    Bug(
        "forked-child-keeps-locks-of-directories",
        "a child of a killed writer keeps its store locked",
        [Change("    for fd in _DIRECTORIES:\n        disk.close(fd)\n", "")],
        [f"{ROWS}/test_two_writers.py"],
    ),
    Bug(
        "lock-of-a-java-broker-not-asked",
        "a directory below the root of a running Java broker is written to",
        [Change("            self._refuse_roots_of_others(path.resolve(), root)\n", "            pass\n")],
        [f"{STORE}/engine/test_shared_directories.py"],
    ),
    Bug(
        "moved-store-goes-on",
        "a store whose directory was renamed goes on acknowledging",
        [Change("        return self._directories.moved() or", "        return None or")],
        [f"{STORE}/engine/test_moved_stores.py"],
    ),
    Bug(
        "deleted-lock-not-noticed",
        "a store whose lock was deleted goes on acknowledging",
        [Change("(None if self._record.is_in_place() else self._path)", "None")],
        [f"{STORE}/engine/test_moved_stores.py::test_deleted_lock_fences"],
    ),
    Bug(
        "sync-of-a-nameless-file-acknowledged",
        "a put is acknowledged after a sync of a log file that was deleted",
        [Change("        if seen != self._seen:\n", "        if False:\n")],
        [f"{STORE}/engine/test_moved_stores.py"],
    ),
    Bug(
        "reader-refuses-a-log-that-has-just-begun",
        "a reader that looked for the log before a writer made it, and for the queues afterwards, reports a lost log",
        [
            Change(
                "    if _holds_log(path):  # a writer has begun it meanwhile, before its queues\n        return\n", ""
            )
        ],
        [f"{STORE}/engine/test_many_directories.py::{BEGINS}"],
    ),
    Bug(
        "synced-messages-of-a-fenced-store-stay-hidden",
        "messages that were synced while the store was fenced, and acknowledged, are not visible until a restart",
        [Change("        if in_time and self._acknowledgement.sync_flush:\n", "        if False:\n")],
        [f"{STORE}/append/test_raw_append.py"],
    ),
    Bug(
        "moved-directory-is-created-again",
        "a writer creates its directories again at the path that they were moved from",
        [Change("            if not is_there:", "            if False:")],
        [f"{STORE}/engine/test_moved_stores.py"],
    ),
    Bug(
        "moved-store-is-written-at-its-old-path",
        "a store that was moved writes into the directory that took its place",
        [Change("    LOST.update((str(path), why) for path in paths)\n", "    pass\n")],
        [f"{STORE}/engine/test_moved_stores.py"],
    ),
    Bug(
        "demo-deletes-what-it-did-not-make",
        "the demo deletes a user's store that has the name of its own",
        [
            Change(
                "    return not entry.is_symlink() and (identity is None or identity == _identity(entry))",
                "    return True",
            )
        ],
        ["tests/rocketflow/demo/test_demo.py::test_demo_refuses_an_entry_of_a_user_that_has_a_name_of_its_own"],
    ),
    # -- checks of pulls and registrations
    Bug(
        "broadcast-allowed",
        "a group broadcasts although consumeBroadcastEnable is false",
        [
            Change(
                "if group.is_broadcasting and config is not None and not config.consume_broadcast_enable:", "if False:"
            )
        ],
        ["tests/rocketflow/broker/test_pull_checks.py"],
    ),
    Bug(
        "old-condition-read",
        "a pull with a new subscription whose condition is wrong is answered by the old condition",
        [Change("        if condition.sub_version < header.sub_version:\n", "        if condition.sub_version < 0:\n")],
        ["tests/rocketflow/broker/test_pull_checks.py"],
    ),
    Bug(
        "retry-topic-counts-as-a-subscription",
        "a push consumer and a pull consumer of a group are reported as a conflict of subscriptions",
        [Change("        if not one.topic.startswith(RETRY_PREFIX)\n", "")],
        ["tests/rocketflow/broker/test_pull_checks.py"],
    ),
    Bug(
        "batch-id-not-answered",
        "the answer to a batch that is one record of a BatchCQ topic does not name the batch's id",
        [Change('                fields["batchUniqId"] = transaction_id\n', "                pass\n")],
        [ANSWERS],
    ),
    Bug(
        "empty-batch-queue-begins-at-0",
        "the empty queue of a BatchCQ topic begins at 0",
        [
            Change(
                "    return -1 if not end and topic is not None and topic.is_batch_cq else begin\n",
                "    return begin\n",
            )
        ],
        [ANSWERS],
    ),
    Bug(
        "units-before-the-index",
        "units of a queue are returned for a range that begins before it",
        [Change("        if begin <= header.index < stop:\n", "        if header.index < stop:\n")],
        [ANSWERS],
    ),
    Bug(
        "blank-tags-match-all",
        "an expression of blanks matches every message",
        [
            Change(
                'if expression is None or expression in ("", "*"):',
                'if expression is None or expression.strip() in ("", "*"):',
            )
        ],
        [ANSWERS, f"{STORE}/filters/test_tags.py"],
    ),
    Bug(
        "tls-handshake-not-named",
        "a TLS handshake at a port without TLS is reported as a frame that is too large",
        [Change("        other = _OTHER_PROTOCOLS.get(size >> 16)\n", "        other = None\n")],
        ["tests/rocketflow/aio/test_tls.py"],
    ),
    Bug(
        "conflicts-repeated",
        "different subscriptions of a group are reported with every change",
        [Change("group.conflict_ms = now_ms\n", "group.conflict_ms = None\n")],
        ["tests/rocketflow/broker/test_tables.py"],
    ),
    Bug(
        "ordered-topics-ignored",
        "a broker ignores the table of ordered topics of its NameServer",
        [Change("is not None and not one.order]", "is not None and one.order]")],
        ["tests/rocketflow/broker/test_registration.py"],
    ),
    Bug(
        "rocksdb-accepted",
        "a broker starts with settings that need RocksDB",
        [Change('_DEFAULT: Final = ("", "default")', '_DEFAULT: Final = ("", "defaultrocksdb", "default")')],
        ["tests/rocketflow/process/test_server_settings.py"],
    ),
    # -- durability
    Bug(
        "ack-before-sync",
        "SYNC_FLUSH acknowledges without a sync",
        [Change("in_time = self.sync(end)", "in_time = bool(end) or self.sync(end)")],
        [f"{ROWS}/test_sync_trace.py", f"{POWER}[sync]"],
    ),
    Bug(
        "queue-ends-not-written",
        "the end offsets of the queues are not written: a queue lost after a kill begins at 0 again",
        [Change("            if self._ends.moved:\n                self._guard(self._write_ends)\n", "")],
        [f"{STORE}/recovery/test_durable_ends.py"],
    ),
    Bug(
        "synced-offset-rarely-stored",
        "how far the log is synced is stored with queues and index only, every 10 s",
        [Change("        self.durability.store_synced(now_ms)\n\n", "\n")],
        [f"{STORE}/engine/test_flush_services.py"],
    ),
    Bug(
        "synced-offset-with-every-put",
        "the synced offset is stored, with a sync, as often as the log's thread is woken",
        [Change(" or 0 <= now_ms - self._stored_ms < _SYNCED_INTERVAL_MS:", ":")],
        [f"{STORE}/engine/test_flush_services.py"],
    ),
    Bug(
        "kill-taken-for-power-loss",
        "after a kill the log is cut at the first bad record after the durable frontier",
        [Change("return replace(confirmed, cache_kept=kept)", "return confirmed")],
        [f"{STORE}/recovery/test_kept_cache.py", f"{ROWS}/test_damage_after_kills.py"],
    ),
    Bug(
        "power-loss-taken-for-kill",
        "after a restart of the system, or in a copy, records after a hole are served",
        [
            Change(
                "kept = 0 != confirmed.cache_mark == os_files.cache_mark(abort) and not confirmed.sync_failed",
                "kept = not confirmed.sync_failed",
            )
        ],
        [f"{STORE}/recovery/test_kept_cache.py", f"{ROWS}/test_holes.py"],
    ),
    Bug(
        "inode-proves-kept-cache",
        "a copy whose abort file got the inode of the writer's counts as the killed store itself",
        [Change(" {file.st_ino} {file.st_ctime_ns}", " {file.st_ino}")],
        [f"{STORE}/recovery/test_kept_cache.py"],
    ),
    Bug(
        "failed-sync-keeps-cache",
        "after a failed sync the page cache counts as what was written",
        [Change("            elif self.on_close is not None:\n                self.on_close()\n", "")],
        [f"{STORE}/recovery/test_kept_cache.py", f"{STORE}/engine/test_flush_services.py"],
    ),
    Bug(
        "failed-recovery-keeps-cache",
        "after a sync of a recovery failed, the page cache counts as what was written",
        [Change("                withdraw_cache(self._found.paths)\n", "                pass\n")],
        [f"{STORE}/recovery/test_kept_cache.py"],
    ),
    Bug(
        "commit-cut-for-its-last-row",
        "a damaged last row of a durable sink commit takes the whole commit with it",
        [
            Change(
                "        if self._walk.open_envelope >= 0 and seen < self._walk.open_end:\n",
                "        if self._walk.open_envelope >= 0:\n",
            )
        ],
        [f"{STORE}/recovery/test_kept_cache.py"],
    ),
    Bug(
        "unfinished-commit-counts-as-damage",
        "after a kill the rows of a commit without its envelope stay",
        [
            Change(
                "known = self.confirm_offset if self.synced or self.cache_kept else self.durable_offset",
                "known = 1 << 61 if self.cache_kept else self.confirm_offset if self.synced else self.durable_offset",
            )
        ],
        [f"{STORE}/recovery/test_kept_cache.py"],
    ),
    Bug(
        "damaged-size-believed",
        "a search after damage accepts any record that it finds, even in a message's body",
        [
            Change(
                "    end: int | None = None\n    try:\n        end = DamagedRecord(",
                "    end: int | None = next_sound(mapped, start, limit, unreadable=unreadable)\n    return end\n"
                "    try:\n        end = DamagedRecord(",
            )
        ],
        [f"{ROWS}/test_forged_records.py"],
    ),
    Bug(
        "blank-in-a-body",
        "a blank record in a body counts as a file's end",
        [Change("at > start and (_is_last_blank(mapped, at) or", "at > start and (is_end_blank(mapped, at) or")],
        [f"{ROWS}/test_forged_records.py"],
    ),
    Bug(
        "batch-in-one-place",
        "the records of a client batch do not know that they follow each other in the queue",
        [
            Change(
                "            queue_offset += 1\n            phy_offset += size\n        return pieces",
                "            phy_offset += size\n        return pieces",
            )
        ],
        [f"{STORE}/records/test_batch_entries.py"],
    ),
    Bug(
        "queue-end-remembered",
        "a writer believes that a queue ends where it did, after it has written more units",
        [
            Change(
                "        numbers[1] += length\n        numbers[2] += 1\n",
                "        numbers[1] += length\n",
            )
        ],
        [f"{STORE}/append/test_lmqs_in_bulk.py"],
    ),
    Bug(
        "superseded-run-commits",
        "a driver that was superseded by another one commits its batch",
        [Change("    if batch.run_seq < newest:\n", "    if batch.run_seq < 0:\n")],
        [f"{STORE}/commits/test_sink_commit.py"],
    ),
    Bug(
        "every-tenth-sync-skipped",
        "one sync in ten does nothing and reports success",
        [
            Change(
                "        if descriptor is not None:  # a file that retention deleted needs no sync\n",
                "        MappedFile.syncs = getattr(MappedFile, 'syncs', 0) + 1\n"
                "        if descriptor is not None and MappedFile.syncs % 10:\n",
            )
        ],
        [f"{POWER}[sync]"],
        seeds=SEEDS,
    ),
    Bug(
        "sync-error-swallowed",
        "a failed sync counts as successful",
        [
            Change(
                "            sync()\n        except StoreFencedError as error:\n            self.close(error)\n"
                "            raise\n        except StoreError",
                "            sync()\n        except StoreFencedError:\n            pass\n        except StoreError",
            )
        ],
        [FAILING],
    ),
    Bug(
        "sync-retried-and-believed",
        "a failed sync is retried, and the retry is believed",
        [
            Change(
                "    try:\n        disk.fdatasync(fd)\n    except OSError as error:\n        raise",
                "    try:\n        try:\n            disk.fdatasync(fd)\n"
                "        except OSError:\n            disk.fdatasync(fd)\n"
                "    except OSError as error:\n        raise",
            )
        ],
        [FAILING],
    ),
    Bug(
        "dispatch-ahead-of-sync",
        "with SYNC_FLUSH readers see records that are not synced",
        [
            Change(
                "limit = self._commit_log.flushed_offset if self._sync_flush else",
                "limit = self._commit_log.flushed_offset if False else",
            )
        ],
        [f"{STORE}/engine/test_visibility.py::test_readers_with_sync_flush_see_only_synced_records"],
    ),
    Bug(
        "late-sync-answered-as-success",
        "a batch whose sync timed out is acknowledged as durable",
        [
            Change(
                "if not self.flush_to(offset, timeout_s):",
                "if not self.flush_to(offset, timeout_s) and False:",
            )
        ],
        [f"{STORE}/engine/test_visibility.py::test_batch_whose_sync_is_late_is_not_acknowledged"],
    ),
    Bug(
        "json-written-in-place",
        "small files are overwritten instead of replaced",
        [
            Change(
                '    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")\n    try:\n'
                "        fd = _open(temporary",
                "    temporary = path\n    try:\n        fd = _open(temporary",
            )
        ],
        [POWER],
        seeds=SEEDS,
    ),
    Bug(
        "rename-without-directory-sync",
        "the directory is not synced after a small file is replaced or a log file created",
        [
            Change(
                "        raise access_error(path, error) from error\n    sync_directory(path.parent)\n",
                "        raise access_error(path, error) from error\n",
            ),
            Change(
                "            if self._synced_names != names:\n",
                "            if self._synced_names != names and False:\n",
            ),
        ],
        [f"{POWER}[sync]"],
        seeds=SEEDS,
    ),
    Bug(
        "sparse-segments",
        "log files have a size but no blocks: a full disk kills the writer later",
        [Change("        disk.posix_fallocate(fd, 0, size)\n", "        disk.ftruncate(fd, size)\n")],
        [f"{STORE}/files/test_allocate_ahead.py"],
    ),
    Bug(
        "abort-removed-too-early",
        "the mark of an unclean stop is removed before everything is durable",
        [
            Change(
                "        self._flushing.durability.flush_last()\n",
                "        os_files.remove_file(parts.paths.abort)\n"
                "        os_files.sync_directory(parts.paths.root)\n"
                "        self._flushing.durability.flush_last()\n",
            )
        ],
        [f"{POWER}[async]"],
        seeds=SEEDS,
    ),
    # -- recovery
    Bug(
        "cut-tail-not-zeroed",
        "recovery truncates by moving the end only",
        [
            Change(
                "if last is not None and last.file_from_offset < boundary and offset < last.end_offset:", "if False:"
            ),
            Change("        os_files.zero_again(descriptor.fd, self.name, stop, self.file_size)\n", ""),
        ],
        [f"{ROWS}/test_torn_tails.py::test_the_last_record_torn_before_its_properties"],
    ),
    Bug(
        "stale-queue-tail-kept",
        "units of records that were cut stay in their queues",
        [Change("            queue.truncate(stop)\n", "")],
        [f"{POWER}[async]"],
        seeds=SEEDS,
    ),
    Bug(
        "recovery-start-by-timestamp",
        "recovery begins at the newest file that is older than the checkpoint's timestamps",
        [
            Change(
                "        if step is Step.WALK_FROM_FRONTIER and confirmed is not None:\n",
                "        if self._found.stop.abort_found and isinstance(self._found.checkpoint, bytes):\n"
                "            newest = int.from_bytes(self._found.checkpoint[:8], 'big', signed=True)\n"
                "            older = [one for one in opened.files.files if one.modified_ms() <= newest]\n"
                "            start = older[-1].file_from_offset if older else start\n"
                "        elif step is Step.WALK_FROM_FRONTIER and confirmed is not None:\n",
            )
        ],
        [f"{STORE}/engine/test_visibility.py::test_recovery_does_not_use_clock_times"],
    ),
    Bug(
        "off-by-one-at-segment-end",
        "a record may leave less room than the blank record needs",
        [
            Change("if size + BLANK_SIZE > room:", "if size + BLANK_SIZE - 1 > room:"),
            Change("offset + room - BLANK_SIZE\n", "offset + room - BLANK_SIZE + 1\n"),
            Change("before + room - BLANK_SIZE, side=", "before + room - BLANK_SIZE + 1, side="),
        ],
        [f"{STORE}/append/test_segment_end.py"],
    ),
    Bug(
        "torn-first-record-is-another-file",
        "an open is refused if the first record names an offset that begins no file",
        [
            Change(
                "    if named < 0 or named % mapped.file_size:\n        return None",
                "    if named < 0:\n        return int(named)",
            )
        ],
        [f"{STORE}/recovery/test_recovery_damage.py"],
    ),
    # -- what is served
    Bug(
        "physical-offset-not-compared",
        "a valid record at a physical offset that it does not name is accepted",
        [
            Change(
                'self._expect(self.field(">i8", 28) == self.positions + file_from_offset, "physical',
                'self._expect(self.positions >= 0, "physical',
            ),
            Change(
                'self._expect(self.field(">i8", 28) == phy_offsets, "physical',
                'self._expect(phy_offsets >= 0, "physical',
            ),
            Change(
                "if frame.phy_offset != phy_offset:\n            raise CorruptRecordError(mapped",
                "if False:\n            raise CorruptRecordError(mapped",
            ),
        ],
        [f"{STORE}/fsck/test_verify.py", f"{STORE}/recovery/test_recovery_damage.py"],
    ),
    Bug(
        "crc-not-checked-on-read",
        "readers return bodies without checking their CRC",
        [
            Change("        fault = content_fault(view, frame)", "        fault = None"),
            Change("if in_doubt else records.faults", "if False else records.faults"),
        ],
        [f"{STORE}/recovery/test_recovery_damage.py"],
    ),
    Bug(
        "only-bodies-checked-on-read",
        "readers check the body's CRC, but not the CRC of the record",
        [
            Change("    if has_record_crc(view, frame):\n        return", "    if False:\n        return"),
            Change(
                "    protected = _protected(records, tails)",
                "    protected = _protected(records, tails) & (records.sizes < 0)",
            ),
        ],
        [f"{ROWS}/test_image_log.py::test_every_bit_of_a_record[closed]"],
    ),
    Bug(
        "descriptors-without-bound",
        "every queue file keeps its descriptor: a store has at most as many queues as the process has descriptors",
        [
            Change("                return -1\n            self._close_some()\n", "                return -1\n"),
            Change("        if fd >= limit - min(limit // _FREE_SHARE, _MOST_FREE):\n", "        if fd < 0:\n"),
            Change("not in NONE_FREE or not self._close_some():", "not in NONE_FREE or True:"),
        ],
        [f"{STORE}/files/test_open_files.py", f"{ROWS}/test_many_queues.py"],
    ),
    Bug(
        "written-file-closed-without-a-sync",
        "a descriptor is closed although its writes are not synced: an error of the disk is lost",
        [
            Change(
                "            if self._written > max(self._synced, 0) or self._failure is not None or self._holds:",
                "            if self._failure is not None or self._holds:",
            )
        ],
        [f"{STORE}/files/test_open_files.py"],
    ),
    Bug(
        "new-queues-without-descriptors",
        "a record of a new queue is appended although no descriptor is left for its file: dispatch stops for all",
        [
            Change(
                "        if others is None or others > first:\n            raise",
                "        if False:\n            raise",
            )
        ],
        [f"{STORE}/files/test_open_files.py", f"{ROWS}/test_many_queues.py"],
    ),
    Bug(
        "unreadable-page-touched",
        "a page of a map is read without a check that it is readable: SIGBUS ends the process",
        [
            Change(
                "            os_files.populate(self._memory, self.descriptor.fd, self._path, start, stop)\n"
                "            return\n        first, last",
                "            return\n        first, last",
            )
        ],
        [f"{ROWS}/test_unreadable_pages.py::test_a_file_that_is_cut_while_it_is_open"],
    ),
    Bug(
        "record-without-crc-believed-by-readers",
        "a record with a damaged CRC property counts as written without one",
        [
            Change(
                "        inside = self._inside(phy_offsets)\n        if",
                "        inside = self._inside(phy_offsets)[:0]\n        if",
            ),
            Change("        if not start <= phy_offset < stop:", "        if True:"),
        ],
        [f"{ROWS}/test_image_log.py::test_every_bit_of_a_record[closed]"],
    ),
    Bug(
        "crc-only-on-body",
        "the CRC of the record is written and never checked",
        [
            Change(
                "    return there & (records.properties_ends - records.properties_starts >= PROPERTY_CRC_SIZE)",
                "    return there & False",
            )
        ],
        [f"{STORE}/fsck/test_verify.py::test_flipped_byte_anywhere_in_a_record_with_crc_is_found"],
    ),
    Bug(
        "commit-record-before-its-rows",
        "an envelope counts although some of its rows are missing",
        [Change("if envelope.end_offset > last:", "if False:")],
        [f"{ROWS}/test_torn_commits.py::test_torn_commit_is_complete_or_absent"],
    ),
    Bug(
        "sink-batch-half-visible",
        "the parts of a sink commit become visible one after another",
        [
            Change(
                "self._log_append.publish(placer, rows)\n",
                "first = [(one.end, one.rows) for one in placed[:1]]\n"
                "            self._log_append.publish(placer, first)\n"
                "            self._acknowledgement.make_visible()\n"
                "            rest = [(placer.end, one.rows) for one in placed[1:]]\n"
                "            self._log_append._dispatch.extend([(placer.end, head), *rest])\n",
            )
        ],
        [f"{STORE}/engine/test_visibility.py::test_sink_commit_is_seen_at_one_instant"],
    ),
    Bug(
        "uncommitted-pool-records-visible",
        "readers see records in a TransientStorePool that are not committed",
        [
            Change(
                "return self.numbers[LOG_END] if self._buffered is None else self._committed_offset",
                "return self.numbers[LOG_END]",
            )
        ],
        [f"{ROWS}/test_power_loss.py::test_power_loss_with_a_store_pool"],
    ),
    Bug(
        "unregistered-log-file-remains",
        "a log file that is renamed while a signal arrives remains after the files that are removed again",
        [Change("            self._remove_unknown(file_from_offset)\n", "")],
        [f"{ROWS}/test_image_stops.py::test_signal_after_each_disk_call"],
        seeds=SEEDS,
    ),
    Bug(
        "stale-queue-bounds",
        "the minimum offset of a queue is cached although the log's minimum has moved",
        [
            Change("if for_floor == floor and queue.first_unit <= low <= end", "if queue.first_unit <= low <= end"),
        ],
        [f"{STORE}/engine/test_retention.py"],
    ),
    # -- what others may have written
    Bug(
        "offset-file-reset-when-unreadable",
        "a config file that cannot be read counts as empty",
        [Change("raise ConfigFileError(self.path, fault.why, backup_fault.why)", "pass")],
        [f"{STORE}/metadata/test_config_files.py"],
    ),
    Bug(
        "length-trusted",
        "a record's length is used before it is compared with the number of bytes",
        [Change("& (sizes >= MIN_RECORD_SIZE) & (positions + sizes <= buffer.size)", "& (sizes >= MIN_RECORD_SIZE)")],
        ["tests/fuzz/test_fuzz.py::test_decoder_of_any_bytes_returns_or_raises_store_error[records-by-units]"],
        seeds=SEEDS,
    ),
    Bug(
        "dots-in-names",
        "a topic may be called ..",
        [
            Change(
                're.compile(r"[%|a-zA-Z0-9_-]+")\n\n\ndef validate_topic',
                're.compile(r"[%|a-zA-Z0-9_.-]+")\n\n\ndef validate_topic',
            )
        ],
        [f"{STORE}/metadata/test_config_files.py::test_names_that_rocketmq_refuses_are_refused"],
    ),
    Bug(
        "stored-topic-becomes-a-path",
        "recovery creates a directory for any topic name in a record",
        [
            Change("(is_directory_name(topic) for topic in topics), bool", "(True for topic in topics), bool"),
            Change(
                "        if not is_directory_name(topic):\n            raise StoreConfigError(",
                "        if False:\n            raise StoreConfigError(",
            ),
        ],
        [f"{STORE}/engine/test_visibility.py::test_unsafe_stored_topic_never_becomes_a_path"],
    ),
    Bug(
        "bodies-of-64-mib-at-most",
        "a reader of a store refuses a body that a consumer and RocketMQ's clients decompress",
        [Change("MAX_DECOMPRESSED_SIZE: Final = 128 << 20", "MAX_DECOMPRESSED_SIZE: Final = 64 << 20")],
        [f"{ODD}[body: 128 MiB]"],
    ),
    Bug(
        "half-pairs-replaced-by-byte",
        "half of a surrogate pair in a property is read as three characters, by RocketMQ as one",
        [Change("_HALF_PAIR.sub(_REPLACEMENT, raw).decode(", "bytes(raw).decode(")],
        [f"{ODD}[properties: half of a surrogate pair]"],
    ),
    Bug(
        "property-without-a-name",
        "a property that no reader returns is stored",
        [
            Change(
                ' or "" in properties:\n        wrong = next(',
                ":\n        wrong = next(",
            )
        ],
        [f"{ODD}[written properties: an empty name]"],
    ),
    Bug(
        "column-of-properties-without-a-name",
        "a property that no reader returns is stored from a column, and refused of a single message",
        [Change(" or not _lengths(self._map.names).all()", "")],
        [f"{ODD_INPUTS}::test_columns_encode_properties_as_single_messages_do[written properties: an empty name]"],
    ),
    Bug(
        "half-pairs-in-headers",
        "a send of a property with half of a surrogate pair fails, and a batch with it does not",
        [Change("return text if text.isascii() else java_text(java_bytes(text))", "return text")],
        ["tests/rocketflow/client/test_messages.py"],
    ),
    Bug(
        "dispatched-as-sent",
        "tags codes and index keys are made of a text that is stored as another one",
        [Change("            if _QUESTION_MARK in raw:", "            if False:")],
        [f"{ODD_INPUTS}::test_half_of_a_surrogate_pair_is_dispatched_as_it_is_stored"],
    ),
    Bug(
        "unsigned-topic-length",
        "columns have a record of version 1 with a topic of 200 bytes, which other readers call damaged",
        [
            Change("if guess <= MAX_V1_TOPIC_SIZE and bool((at + width", "if bool((at + width"),
            Change("self.octets[at].view(np.int8).astype(np.int64)", "self.octets[at].astype(np.int64)"),
        ],
        [
            f"{ODD_INPUTS}::test_columns_have_the_records_of_the_scalar_decoder"
            "[records: version 1 with a topic of 200 bytes]"
        ],
    ),
    Bug(
        "unbounded-inflate",
        "a compressed body is inflated before its size is checked",
        [Change("decode(bytes(stored), limit + 1)", "decode(bytes(stored), (1 << 31) - 1)")],
        ["tests/fuzz/test_fuzz.py::test_decompression_bomb_is_refused_without_its_memory"],
    ),
    Bug(
        "frames-after-the-first-are-cut",
        "of an LZ4 body of several frames only the first is decompressed",
        [
            Change(
                "if len(out) >= limit or (engine.eof and not engine.unused_data):",
                "if len(out) >= limit or engine.eof:",
            )
        ],
        [f"{BODIES}::test_commands_of_a_store_show_the_stored_body_or_skip_it"],
    ),
    Bug(
        "bad-body-is-returned-in-quarantine",
        "a read that skips messages whose body cannot be decoded returns them as they are stored",
        [
            Change(
                "            if not keeps(row, fault.why):\n                continue\n",
                "            keeps(row, fault.why)\n",
            )
        ],
        [f"{BODIES}::test_a_reader_fails_returns_the_stored_body_or_skips_the_message"],
    ),
    Bug(
        "bad-body-stops-a-queue",
        "a client refuses an answer that has a message whose body cannot be decoded",
        [
            Change(
                "        return [replace(message, body_fault=error.reason)]",
                "        raise error",
            )
        ],
        [f"{BODIES}::test_clients_give_the_stored_body_and_the_reason_to_the_application"],
    ),
    Bug(
        "consume-commits-the-bad-body",
        "`consume` ends at a message whose body cannot be decoded, and its group counts it as consumed",
        [Change("            consumer.seek(queue, one.queue_offset)\n", "            pass\n")],
        [f"{BODIES}::test_consume_stops_before_such_a_message_shows_it_or_skips_it"],
    ),
    Bug(
        "filter-needs-bodies",
        "a read over the network decompresses the bodies of messages that its filter does not select",
        [
            Change(
                "            records, offsets, places = records.keep(chosen), offsets[chosen], places[chosen]\n",
                "            pass\n",
            )
        ],
        [f"{BODIES}::test_a_filter_that_does_not_select_such_messages_does_not_need_their_bodies"],
    ),
    Bug(
        "verify-looks-into-no-body",
        "a verification says clean of records whose body no reader can decode",
        [Change("            check_bodies(flagged_records, mapped.path, report.bad_bodies)\n", "")],
        [f"{BODIES}::test_verify_lists_such_messages_and_nothing_is_lost"],
    ),
    # -- queues beside the plain ones, deleted topics
    Bug(
        "lost-batch-queues-go-unnoticed",
        "an open does not check the queues of BatchCQ topics against the log",
        [Change("record.batch_queues if record is not None else {}, lost.batch_queues", "{}, lost.batch_queues")],
        [f"{STORE}/recovery/test_side_queue_recovery.py::test_damaged_side_queue_is_rebuilt"],
    ),
    Bug(
        "lmq-serves-any-record",
        "a unit of an LMQ may point at a record that does not name that LMQ",
        [
            Change(
                "            return (identity.topic, queue_offset) in lmq_units(self._properties(frame, held))\n",
                "            return True\n",
            )
        ],
        [f"{STORE}/fsck/test_side_queue_fsck.py::test_units_of_another_lmq_serve_no_message"],
    ),
    Bug(
        "deleted-topics-dispatched",
        "recovery dispatches records of deleted topics",
        [Change("    if not floors:\n        return\n", "    if True:\n        return\n")],
        [f"{STORE}/engine/test_deleted_topics.py::test_deleted_messages_do_not_return_under_a_new_topic_of_that_name"],
    ),
    Bug(
        "crc-expected-from-another-writer",
        "a queue rebuild expects the CRC property also in records of another writer",
        [
            Change("        if before is not None and log_end > before.end_phy_offset:\n", "        if False:\n"),
        ],
        [f"{STORE}/recovery/test_side_queue_recovery.py::test_healing_accepts_another_writers_records_without_crc"],
    ),
    # -- backup
    Bug(
        "backup-without-a-flush",
        "a backup does not ask the broker to write what it has only in memory: offsets of groups, buffers of a pool",
        [Change("            broker.make_durable()\n", "            pass\n")],
        ["tests/reliability/network/test_backups.py"],
    ),
    Bug(
        "backup-with-its-name-at-once",
        "an incomplete backup has the name of a complete one",
        [Change("final.with_name(final.name + TEMPORARY_SUFFIX)", "final.with_name(final.name)")],
        [f"{STORE}/backup/test_backup.py::test_killed_backup_has_a_temporary_name"],
    ),
    Bug(
        "backup-without-commits-that-expire-during-it",
        "the last commits of sinks are copied before the log, whose files retention then deletes",
        [
            Change("        copy_sinks(source, paths)  # after", "        # after"),
            Change(
                "        copy_positions(source, paths)",
                "        copy_sinks(source, paths)\n        copy_positions(source, paths)",
            ),
        ],
        [f"{STORE}/backup/test_backup.py::test_retention_that_deletes_files_during_the_copy_shortens_the_backup"],
    ),
    Bug(
        "backup-forgets-queues-without-messages",
        "a queue whose messages have expired begins at offset 0 in a backup",
        [Change("            plain[key] = replace(", "            replace(")],
        [f"{STORE}/backup/test_backup.py::test_retention_that_deletes_files_during_the_copy_shortens_the_backup"],
    ),
    # -- rebuild
    Bug(
        "rebuild-swaps-units",
        "three consecutive units are written in reverse order",
        [
            Change(
                "            units[at : at + count] = self._parts.rows(part, row, count)\n",
                "            units[at : at + count] = self._parts.rows(part, row, count)[:: -1 if count == 3 else 1]\n",
            )
        ],
        [f"{STORE}/rebuild/test_rebuild.py::test_rebuild_equals_incremental_dispatch"],
    ),
    Bug(
        "rebuild-leaves-slots-of-damaged-records-empty",
        "a rebuilt queue has no units for damaged records",
        [Change("            if key in gapped:\n", "            if False:\n")],
        [f"{STORE}/rebuild/test_rebuild.py::test_damage_loses_only_the_damaged_records"],
    ),
    Bug(
        "rebuild-swaps-unsynced-files",
        "queue files of a rebuild are swapped in without a sync",
        [Change("            os_files.sync_file(fd, path)\n            finished(own", "            finished(own")],
        [f"{STORE}/rebuild/test_rebuild.py::test_power_loss_at_any_step_is_repaired_by_another_rebuild"],
    ),
    Bug(
        "rebuild-forgets-index-entries-of-one-block",
        "index entries of one slot within a block are not linked to each other",
        [Change("            before[rows[follows + 1]] = numbers[rows[follows]]\n", "")],
        [f"{STORE}/rebuild/test_rebuild.py::test_rebuild_equals_incremental_dispatch"],
    ),
    # -- retries, requeues
    Bug(
        "one-retry-too-many",
        "a message is sent back once more often than the group allows",
        [Change("if message.reconsume_times >= most or", "if message.reconsume_times > most or")],
        [f"{STORE}/delivery/test_send_back.py::test_retry_levels_grow_until_the_message_is_a_dead_letter"],
    ),
    Bug(
        "requeue-position-not-committed",
        "commits of a requeue hold rows but not the run's position: a retry requeues the rows again",
        [Change("    positions = {**run.positions, **batch.positions}\n", "    positions = dict(run.positions)\n")],
        [f"{STORE}/delivery/test_requeue_run.py", f"{ROWS}/test_manual_requeue_kills.py"],
    ),
    Bug(
        "requeue-moves-later-messages",
        "a retried run covers the queue's current rows, not those of its begin",
        [
            Change(
                "ProgressBatch(request.sink_id, request.run_id, None, progress)",
                "ProgressBatch(request.sink_id, request.run_id, commits.last_commit(request.sink_id), progress)",
            )
        ],
        [f"{STORE}/delivery/test_requeue_run.py::test_run_continues_after_its_last_commit"],
    ),
    Bug(
        "requeued-messages-keep-their-delay",
        "a requeued message keeps its delay properties",
        [Change('*("DELAY", "REAL_TOPIC", "REAL_QID"),', '*("REAL_TOPIC", "REAL_QID"),')],
        [f"{STORE}/delivery/test_requeue_run.py::test_requeued_record_is_a_new_message_with_its_origin"],
    ),
    # -- delay levels
    Bug(
        "delivery-progress-without-messages",
        "a delivery commits the positions of the levels without the messages",
        [
            Change(
                "ProgressBatch(SINK_ID, self.run_id, before.after, progress, rows, chunks)",
                "ProgressBatch(SINK_ID, self.run_id, before.after, progress)",
            )
        ],
        [f"{STORE}/delivery/test_delay_delivery.py::test_message_is_delivered_once_when_it_is_due"],
    ),
    Bug(
        "delay-file-believed",
        "delayOffset.json is trusted over the log",
        [Change("            believed = self.search(level, start, shown[0])\n", "            believed = end\n")],
        [
            f"{STORE}/delivery/test_delay_delivery.py::test_delivery_continues_at_the_envelopes_position",
            f"{ROWS}/test_requeue_kills.py",
        ],
    ),
    Bug(
        "delay-file-believed-to-be-current",
        "messages that a broker delivered before it was killed are delivered again",
        [
            Change(
                "        found[level] = evidence.after_delivered(level, start, high)\n",
                "        found[level] = start\n",
            )
        ],
        [f"{STORE}/delivery/test_delay_delivery.py::test_messages_that_a_broker_delivered_are_not_delivered_again"],
    ),
    Bug(
        "due-a-moment-late",
        "a message is not yet due at its own time",
        [Change("np.flatnonzero((dues > until_ms) &", "np.flatnonzero((dues >= until_ms) &")],
        [f"{STORE}/delivery/test_delay_golden.py::test_pending_delays_are_delivered_at_their_time"],
    ),
    Bug(
        "due-time-of-a-damaged-unit-believed",
        "a damaged due time in a unit delivers its message early",
        [
            Change(
                "(dues <= MAX_EXT_ADDRESS) | (dues < stored) | (dues > stored + ABSURD_MS)",
                "dues > stored + ABSURD_MS",
            )
        ],
        [f"{STORE}/delivery/test_delay_delivery.py::test_unit_without_a_valid_time_does_not_make_a_message_early"],
    ),
    Bug(
        "lost-message-blocks-its-level",
        "no message after a lost one is delivered: the tags code of its placeholder is a due time in the far future",
        [Change("(dues > until_ms) & (dues <= until_ms + ABSURD_MS) &", "(dues > until_ms) &")],
        [f"{STORE}/delivery/test_delay_delivery.py::test_unit_of_a_lost_message_does_not_block_its_level"],
    ),
    Bug(
        "delayed-message-into-the-commit-topic",
        "REAL_TOPIC may name a topic that only the store itself writes to",
        [
            Change(
                "    if is_send_refused(topic):\n        return NO_TARGET\n",
                "    if topic == SCHEDULE_TOPIC:\n        return NO_TARGET\n",
            )
        ],
        [f"{STORE}/delivery/test_delay_delivery.py::test_message_without_a_legal_target_is_skipped_and_reported"],
    ),
    Bug(
        "delivery-of-a-closed-store",
        "a delivery from a closed store looks as if nothing were due",
        [Change("        self._store.check_open()\n        now_ms = ", "        now_ms = ")],
        [f"{STORE}/delivery/test_delay_delivery.py::test_delivery_from_a_closed_store_raises"],
    ),
    Bug(
        "redelivered-with-the-old-crc",
        "a redelivered record keeps the CRC property of its old place",
        [
            Change(
                "    ends = records.properties_ends - PROPERTY_CRC_SIZE * with_record_crc(records)\n",
                "    ends = records.properties_ends\n",
            )
        ],
        [f"{STORE}/records/test_reput.py::test_reput_records_are_those_of_the_scalar_encoder"],
    ),
    Bug(
        "compiled-facts-of-delayed-records",
        "the kernel reads the tags codes of records that are delayed again before they have a time",
        [Change("if SCHEDULE_TOPIC in targets.topics:  # tags codes depend", "if False:  # tags codes depend")],
        [f"{STORE}/records/test_reput.py::test_reput_gives_the_same_chunk_with_the_kernel_and_without"],
        with_kernel=True,
    ),
    Bug(
        "compiled-entries-without-an-index",
        "redelivered records that the kernel reads have index entries in a store without an index",
        [Change("found.rows.entries if config.message_index_enable else IndexEntries.none()", "found.rows.entries")],
        [f"{STORE}/records/test_reput.py::test_reput_gives_the_same_chunk_with_the_kernel_and_without"],
        with_kernel=True,
    ),
    Bug(
        "records-without-properties-damaged",
        "bulk readers read the properties' length two bytes too early if topics differ",
        [
            Change(
                "self.positions + self.sizes - 2, self.positions)", "self.positions + self.sizes - 4, self.positions)"
            )
        ],
        [f"{STORE}/records/test_record_columns.py"],
    ),
    # -- the Kafka bridge
    Bug(
        "bridge-commit-without-fencing",
        "Kafka records are committed although another bridge copied them meanwhile",
        [Change("        if committed != part.base:\n", "        if committed is not None and part.base is None:\n")],
        [f"{KAFKA}/test_store_commit.py"],
    ),
    Bug(
        "bridge-drops-duplicate-headers",
        "a header that occurs twice in a Kafka record is kept once",
        [Change("    plain &= once\n", "")],
        [f"{KAFKA}/test_mapping.py::test_kafka_message_is_restored_exactly"],
    ),
    Bug(
        "bridge-reads-a-batch-from-its-begin",
        "records of a batch below the offset at which a bridge resumes are copied again",
        [Change("return rows if wanted.all() else rows.take(np.flatnonzero(wanted))", "return rows")],
        [f"{KAFKA}/test_mapping.py::test_decoded_record_batches_equal_the_encoded_messages"],
    ),
    Bug(
        "bridge-exceeds-rows-per-commit",
        "a Kafka batch is never split: a commit has as many rows as one poll returned",
        [Change("            if one.most_rows > rows:\n", "            if one.most_rows > rows > rows + 1:\n")],
        [f"{KAFKA}/test_batch_limits.py::test_cut_splits_batches_at_any_row"],
    ),
    Bug(
        "bridge-resumes-in-a-recreated-topic",
        "a bridge resumes at the offsets of a deleted topic in the topic recreated under its name",
        [Change("now is not None and before != now:\n", "now is not None and before > before:\n")],
        [f"{KAFKA}/test_replaced_topics.py::test_missing_note_is_added_and_then_checked"],
    ),
    Bug(
        "bridge-commits-into-a-recreated-topic",
        "a bridge does not ask for its target topics' ids before it commits what it sent to them",
        [Change("                self._ids.check(known)  #", "                #")],
        [
            f"{KAFKA}/test_replaced_topics.py::"
            "test_target_topic_recreated_during_a_transaction_stops_the_bridge_before_its_commit"
        ],
    ),
    Bug(
        "bridge-at-rest-asks-nothing",
        "a bridge that has nothing to copy does not notice that its target topic was recreated",
        [
            Change(
                "                    self._ids.check_again(self._known_ids(self._progress))\n",
                "                    pass\n",
            )
        ],
        [f"{KAFKA}/test_replaced_topics.py::test_target_topic_recreated_while_a_bridge_has_nothing_to_copy_stops_it"],
    ),
    Bug(
        "bridge-commits-messages-of-a-recreated-topic",
        "a bridge commits what it polled of a recreated topic before its client hears of the recreation",
        [Change("        self._ids.check({one.part.topic: one.part.topic_id for one in parts})\n", "")],
        [f"{KAFKA}/test_replaced_topics.py::test_source_topic_recreated_during_a_run_stops_it_before_its_next_commit"],
    ),
    Bug(
        "bridge-shows-passwords-at-debug",
        "log lines of Kafka clients are written unchanged, also requests with the password",
        [Change("                record.msg, record.args = hidden, ()\n", "                pass\n")],
        [f"{KAFKA}/test_secrets.py::test_secrets_are_hidden_in_errors_and_log_lines"],
    ),
    Bug(
        "bridge-drops-rocketmq-properties",
        "the copy to Kafka omits properties that a header of the same name does not restore",
        [Change("    for row, held in _not_restorable(rows, properties).items():\n", "    for row, held in ():\n")],
        [f"{KAFKA}/test_mapping.py::test_rocketmq_message_is_mapped_to_kafka_and_back"],
    ),
    # -- quality
    Bug(
        "ignored-rows-counted",
        "conditions over several columns also count the rows that `ignore_row_if` excludes",
        [Change("self._domains.condition({**domain[0], **domain[1]})", "self._domains.condition(domain[0])")],
        ["tests/rocketflow/quality/test_agreement.py::test_pass_and_great_expectations_agree"],
    ),
    Bug(
        "draft-bounds-despite-nan",
        "a range is drafted of a column that holds NaN, which is above every bound",
        [
            Change(
                "if pa.types.is_floating(values.type) and not pc.all(",
                "if pa.types.is_integer(values.type) and not pc.all(",
            )
        ],
        ["tests/rocketflow/quality/test_drafts.py::test_suite_passes_on_the_objects_it_was_drafted_from"],
    ),
    Bug(
        "checked-batch-identified-by-its-number",
        "a retried checked batch with other rows counts as the one in the log",
        [Change("        if known != ranges:\n", "        if known is None:\n")],
        ["tests/rocketflow/quality/test_stream.py::test_repeated_batch_is_written_once"],
    ),
    # -- timer messages
    Bug(
        "timer-a-tick-early",
        "messages that are due in the current tick are delivered early",
        [Change("in self._files.due_ticks(tick) if len(units)", "in self._files.due_ticks(tick + 1) if len(units)")],
        [f"{STORE}/delivery/test_timer_delivery.py::test_message_is_delivered_in_its_tick_like_a_brokers"],
    ),
    Bug(
        "timer-broker-deliveries-ignored",
        "the timer delivers messages again that a broker delivered",
        [
            Change(
                "            if len(hits):\n                _count(",
                "            if not len(hits):\n                _count(",
            )
        ],
        [f"{STORE}/delivery/test_timer_golden.py::test_rebuilt_wheel_has_the_messages_of_the_brokers"],
    ),
    Bug(
        "timer-wheel-believed",
        "a wheel that another writer changed is used",
        [Change("if crc32(wheel.octets()) != stop.wheel_crc:", "if crc32(wheel.octets()) == stop.wheel_crc + 1:")],
        [f"{STORE}/delivery/test_timer_delivery.py::test_files_have_the_waiting_messages"],
    ),
    Bug(
        "timer-files-of-another-log",
        "the timer's files are used although the log was truncated after them",
        [Change("return known <= low or self._mark(known) == self._files.newest", "return True")],
        [f"{STORE}/delivery/test_timer_delivery.py::test_log_that_was_cut_and_grew_again_is_noticed"],
    ),
    Bug(
        "timer-delivery-lost-with-the-log",
        "the timer's files are used although the log lost the deliveries that they record",
        [Change("        if commits > now[0] or (", "        if commits < 0 and (")],
        [f"{STORE}/delivery/test_timer_delivery.py::test_delivery_that_the_log_lost_is_repeated"],
    ),
    Bug(
        "timer-rolled-again",
        "a rolled message is delivered in addition to its copy",
        [
            Change(
                "        rows = rows.take(~superseded(self._store, rows, self._roll_copies))\n        is_due",
                "        is_due",
            )
        ],
        [f"{STORE}/delivery/test_timer_delivery.py::test_far_messages_are_rolled_until_they_are_due"],
    ),
    Bug(
        "timer-recall-ignored",
        "a recalled message is delivered",
        [Change("names[row].as_py()) in self.deletes:", "names[row].as_py()) not in self.deletes:")],
        [f"{STORE}/delivery/test_timer_delivery.py::test_recalled_message_is_not_delivered"],
    ),
    Bug(
        "recall-of-another-topic",
        "a message to one topic recalls a timer message of another",
        [
            Change(
                "zip(self._ticks(found.due), topics, names, strict=True)",
                'zip(self._ticks(found.due), [""] * len(topics), names, strict=True)',
            ),
            Change("if (tick, topics[row].as_py(), names[row]", 'if (tick, "", names[row]'),
        ],
        [f"{STORE}/delivery/test_timer_delivery.py::test_recall_sent_to_another_topic_recalls_nothing"],
    ),
    Bug(
        "timer-recall-of-5.5-ignored",
        "a message that RocketMQ 5.5 recalled by its UNIQ_KEY without the topic is delivered",
        [Change("for names in recall_names(segments):", "for names in recall_names(segments)[:1]:")],
        [f"{STORE}/delivery/test_timer_golden.py"],
    ),
    # -- complete answers
    Bug(
        "row-larger-than-a-file",
        "a row larger than a CommitLog file is refused only after others are written",
        [Change("        suspicious |= sizes + room + _HEAD_ROOM > config.mapped_file_size_commit_log\n", "")],
        [f"{STORE}/engine/test_small_log_files.py"],
    ),
    Bug(
        "by-time-unreadable-is-earlier",
        "a search by time treats an unreadable record as an earlier one",
        [
            Change(
                "            good = np.flatnonzero(times >= 0)\n            if len(good):\n"
                "                return _Stored(start + int(good[0]),",
                "            good = np.flatnonzero(times >= -1)\n            if len(good):\n"
                "                return _Stored(start + int(good[0]),",
            )
        ],
        [f"{STORE}/reading/test_offset_by_time.py"],
    ),
    Bug(
        "listing-left-open",
        "a listing of a directory that ends with an error stays open",
        [
            Change(
                "                with os.scandir(directory) as entries:\n                    for entry in entries:\n"
                "                        if not (entry.name.isdigit() and len(entry.name) >= 20):",
                "                if entries := os.scandir(directory):\n                    for entry in entries:\n"
                "                        if not (entry.name.isdigit() and len(entry.name) >= 20):",
            )
        ],
        [f"{STORE}/engine/test_many_directories.py::test_file_in_two_directories_is_refused"],
    ),
    # -- Airflow
    Bug(
        "airflow-busy-store-fails",
        "a task whose store is locked by another process fails at once",
        [Change("if self.code == EXIT_BUSY or self.code < 0 or", "if self.code < 0 or")],
        ["tests/rocketflow/airflow/test_parts.py::test_verdict_of_an_exit_code"],
    ),
    Bug(
        "airflow-command-outlives-its-task",
        "a killed worker leaves its command running, which holds the store's lock",
        [Change("prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)", "prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)")],
        ["tests/rocketflow/airflow/test_parts.py::test_command_ends_when_its_parent_is_killed"],
    ),
    Bug(
        "airflow-secrets-passed-on",
        "a command inherits Airflow's environment with its keys",
        [Change('hidden = ("AIRFLOW", "_AIRFLOW", ', "hidden = (")],
        ["tests/rocketflow/airflow/test_parts.py::test_command_does_not_inherit_airflows_secrets"],
    ),
    # -- the shape of the code
    Bug(
        "modules-in-a-circle",
        "the fence and the log that it guards name each other's types",
        [
            Change(
                "    from rocketflow_store.files.mapped.transient_store_pool import BufferedFiles\n\n\n"
                "@dataclass(frozen=True, slots=True)\nclass Run:",
                "    from rocketflow_store.files.mapped.transient_store_pool import BufferedFiles\n"
                "    from rocketflow_store.log.fence import Fence\n\n\n"
                "@dataclass(frozen=True, slots=True)\nclass Run:",
            )
        ],
        ["tests/project/test_shape.py"],
    ),
    # -- settings
    Bug(
        "settings-out-of-range-refused",
        "a number that RocketMQ clamps to its range is refused",
        [Change("        return min(max(value, low), high)\n", "        return value\n")],
        [f"{STORE}/settings/test_settings_of_rocketmq.py::test_every_number_that_rocketmq_takes_is_taken"],
    ),
    Bug(
        "settings-without-effect-unnamed",
        "keys without effect are accepted without a warning",
        [Change("    if keys and (path, keys) not in _warned:\n", "    if keys and not path:\n")],
        [f"{STORE}/settings/test_settings_of_rocketmq.py::test_keys_without_effect_are_named_once_at_the_open"],
    ),
    Bug(
        "rocksdb-queues-unseen",
        "a store with its queues in RocksDB is shown without topics",
        [
            Change(
                '    if "CURRENT" in _names(root / consume_queue):\n',
                '    if "CURRENT " in _names(root / consume_queue):\n',
            )
        ],
        [f"{STORE}/engine/test_other_engines.py::test_data_of_another_engine_is_refused_by_name"],
    ),
    Bug(
        "rocksdb-data-written-past",
        "a writer opens a store whose index, timer or transactions are in RocksDB",
        [Change('        if name.endswith(".sst") or (name', "        if (name")],
        [f"{STORE}/engine/test_other_engines.py::test_data_in_rocksdbstore_refuses_writers_and_warns_readers"],
    ),
    Bug(
        "log-elsewhere-has-no-identity",
        "a replaced log is not detected if it is outside the store's root",
        [
            Change(
                "for one in self.commit_logs for name in _names(one)",
                "for one in (self.root / 'commitlog',) for name in _names(one)",
            )
        ],
        ["tests/rocketflow/spark/test_settings_of_stores.py"],
    ),
    Bug(
        "source-without-settings",
        "the source ignores settings of file and environment",
        [
            Change(
                "return tuple(replace(one, settings=settings) for one in parse_stores(text))",
                "return parse_stores(text)",
            )
        ],
        ["tests/rocketflow/spark/test_settings_of_stores.py"],
    ),
    Bug(
        "options-out-of-bounds",
        "a client starts with an option outside its bounds",
        [
            Change(
                "            except ValueNotAllowedError as error:\n                raise ClientError(",
                "            except ZeroDivisionError as error:\n                raise ClientError(",
            )
        ],
        ["tests/rocketflow/client/test_client_options.py"],
    ),
    Bug(
        "argument-without-bounds",
        "a job runs with a number of an argument that it cannot use",
        [
            Change(
                '                raise UsageError(f"{one.key} {value}: {error}") from None\n', "                pass\n"
            )
        ],
        ["tests/rocketflow/process/test_arguments.py"],
    ),
    Bug(
        "hint-at-a-far-name",
        "explain proposes a name that has little to do with the one that was asked for",
        [Change("_NEAR: Final = 0.75\n", "_NEAR: Final = 0.4\n")],
        ["tests/rocketflow/cli/test_reference.py::test_explain_names_the_kinds_of_entries_if_none_is_similar"],
    ),
    Bug(
        "setting-under-a-key-of-no-broker",
        "a setting has a key that no broker.conf can give",
        [
            Change(', True, key="checkCRCOnRecover"', ", True"),
        ],
        ["tests/store/settings/test_broker_conf.py"],
    ),
    Bug(
        "deep-json-escapes",
        "input JSON that is nested too deeply raises RecursionError",
        [
            Change(
                '    except RecursionError:\n        raise DeepJsonError("nested too deeply") from None',
                "    except ZeroDivisionError:\n        raise",
            )
        ],
        [f"{STORE}/metadata/test_json_limits.py", "tests/rocketflow/cli/test_json_limits.py"],
    ),
    Bug(
        "timer-snapshots-remain",
        "a rebuild of the wheel keeps the old snapshot, which a broker prefers",
        [Change("            os_files.remove_file(snapshot)\n", "            pass\n")],
        [f"{STORE}/delivery/test_timer_golden.py::test_rebuild_removes_the_snapshots_of_a_wheel"],
    ),
    # -- readers that answer less than there is
    Bug(
        "tag-code-believed",
        "a read by tag skips a message whose unit has a damaged tags code",
        [Change("            keep |= self._in_doubt(units, offsets, keep)\n", "")],
        [f"{STORE}/reading/test_damaged_units.py"],
    ),
    Bug(
        "retention-ends-a-skipping-read",
        "a read of several blocks uses the bounds of its first block for all",
        [Change("            if reached < stop:\n                low, high = self._bounds()\n", "")],
        [f"{STORE}/reading/test_read_faults.py"],
    ),
    Bug(
        "skipped-message-not-reported",
        "get_message skips a message without reporting it",
        [Change("            skipped.append(SkippedMessages(at, messages, phy_offset, why))\n", "")],
        [f"{STORE}/reading/test_damaged_units.py"],
    ),
    Bug(
        "broken-chain-ends-the-query",
        "a slot that points outside the entries hides the key",
        [
            Change(
                'on_damage(self._path, newer, f"the chain of its slot goes on at entry {at}, which is not older")\n'
                "                yield from self._among_all(key_hash, begin, end, newer)\n",
                'on_damage(self._path, newer, f"the chain of its slot goes on at entry {at}, which is not older")\n',
            )
        ],
        [f"{STORE}/reading/test_damaged_chains.py"],
    ),
    Bug(
        "misplaced-record-by-key",
        "a record that claims another message's place is served by key",
        [Change("if message.topic != topic or self._is_in_its_place(message):", "if message is not None:")],
        [f"{STORE}/reading/test_damaged_chains.py"],
    ),
    Bug(
        "condition-after-a-truncated-number",
        "a filter continues after a number of which RocketMQ parses only the 0",
        [
            Change(
                '        if self._token.kind is not TokenKind.END:\n            raise self._error(token, f"RocketMQ',
                '        if False:\n            raise self._error(token, f"RocketMQ',
            )
        ],
        [f"{STORE}/filters/test_sql92.py"],
    ),
    Bug(
        "impossible-size-believed",
        "an impossible size in store.meta resets all sizes to those of an empty store",
        [Change(" if LIMITS[name][0] <= size <= LIMITS[name][1]}", "}")],
        [f"{STORE}/metadata/test_file_sizes.py"],
    ),
    Bug(
        "gap-ends-a-queue",
        "a queue ends for readers at the first missing unit",
        [Change("            past_gaps=True,\n", "            past_gaps=False,\n")],
        [f"{STORE}/reading/test_promised_queues.py"],
    ),
    Bug(
        "clean-stop-record-ignored",
        "readers use the files of a queue and ignore the bounds that the writer recorded at its stop",
        [
            Change(
                "    _believes_promises: ClassVar[bool] = True\n",
                "    _believes_promises: ClassVar[bool] = False\n",
            )
        ],
        [f"{STORE}/reading/test_promised_queues.py"],
    ),
    Bug(
        "missing-unit-counts-as-removed",
        "a queue whose first unit is missing begins after it",
        [
            Change(
                "        others = np.flatnonzero(~pre_blank(units))\n",
                "        others = np.flatnonzero(_is_real(units))\n",
            )
        ],
        [f"{STORE}/reading/test_promised_queues.py"],
    ),
    Bug(
        "one-unit-moves-the-minimum",
        "the search for a queue's first message trusts a damaged unit",
        [
            Change(
                "    return found if _agree(queue, first, found, end, floor) else",
                "    return found if end else",
            )
        ],
        [f"{STORE}/views/test_first_kept.py"],
    ),
    Bug(
        "choice-of-another-thread-fails",
        "a put fails if the directory of its file was withdrawn by another thread",
        [
            Change(
                "None if self._chosen is None else self._chosen.pop(file_from_offset, None)",
                "None if self._chosen is None else self._chosen.pop(file_from_offset)",
            ),
            Change(
                "            return any(one not in",
                "            assert self._chosen\n            return any(one not in",
            ),
        ],
        [f"{STORE}/files/test_log_directories.py"],
    ),
    Bug(
        "failed-open-leaves-threads",
        "the threads of a store go on with closed files if its open fails",
        [Change("        on_error.callback(flushing.stop)\n", "")],
        ["tests/reliability/test_failing_close.py"],
    ),
    Bug(
        "failed-close-leaves-threads",
        "the threads of a store go on with closed files if the first step of its close fails",
        [
            Change(
                "(parts.allocator, self._rounds, self._flushing, self._watch):",
                "(self._watch, self._flushing, self._rounds):",
            ),
            Change(
                "                    threads.callback(one.stop)\n                self._writing.close()\n",
                "                    one.stop()\n                self._writing.close()\n",
            ),
        ],
        ["tests/reliability/test_failing_close.py"],
    ),
    Bug(
        "newest-files-hide-the-frontier",
        "after a kill the durable end of a queue is looked for in its newest files alone: a sound queue is rebuilt",
        [
            Change(
                "[one for one in entries if is_file_name(one, _NAME_DIGITS) and int(one.name) < stop]",
                "[one for one in self._last_files(entries) if int(one.name) < stop]",
            )
        ],
        [f"{STORE}/recovery/test_rebuilt_ends.py"],
    ),
    Bug(
        "quarantined-units-are-forgotten",
        "a queue that is rebuilt after a kill assigns the queue offset of its newest, damaged record again",
        [
            Change(
                "        for topic, queue_id in self._lost.all_queues:\n            for base",
                "        for topic, queue_id in ():\n            for base",
            )
        ],
        [f"{STORE}/recovery/test_rebuilt_ends.py"],
    ),
    Bug(
        "ends-of-batch-queues-are-cut",
        "after a kill a BatchCQ topic assigns the queue offsets of its newest, damaged record again",
        [
            Change(
                "            _raise_to(self._batch_ends, key, end_of_lost_batches(units, lost))",
                "            _ = key, units",
            )
        ],
        [f"{STORE}/recovery/test_rebuilt_ends.py"],
    ),
    Bug(
        "stopped-recovery-forgets-ends",
        "a recovery that is stopped loses the ends of queues whose newest record is damaged",
        [Change("        if self._synced:\n            self._store()\n", "")],
        [f"{STORE}/recovery/test_rebuilt_ends.py"],
    ),
    Bug(
        "rebuild-forgets-lost-batches",
        "a rebuild after a kill lets a BatchCQ topic end before its newest, damaged record",
        [
            Change(
                "ends[key] = max(ends.get(key, 0), end_of_lost_batches(units, lost))",
                "ends[key] = ends.get(key, 0)",
            )
        ],
        [f"{STORE}/recovery/test_rebuilt_ends.py"],
    ),
    Bug(
        "durable-units-ignored",
        "an open after a kill declares messages lost if their units are missing below the durable end",
        [Change("key not in lost.queues and not self._has_units(key, there[key], end, log)", "end < 0")],
        [f"{STORE}/reading/test_promised_queues.py"],
    ),
    Bug(
        "tags-not-dispatched",
        "dispatch writes no index entries for TAGS, whatever the profile",
        [
            Change(
                "entries = rows.entries if self._tag_entries else rows.entries.without_tags()",
                "entries = rows.entries.without_tags()",
            )
        ],
        [f"{STORE}/views/test_derived_profile.py"],
    ),
    Bug(
        "every-tag-must-be-indexed",
        "a message of an older broker without an index entry for its TAGS is reported as damage",
        [Change("must[:] = ~entries.of_tag | with_tags[entries.of_row]", "must[:] = True")],
        [f"{STORE}/views/test_derived_profile.py"],
    ),
    Bug(
        "conversion-not-recorded",
        "a rebuild with a profile does not record it: a store without TAGS gets its old profile back",
        [Change("                    self._record_profile()\n", "")],
        [f"{STORE}/views/test_derived_profile.py::test_conversion_of_a_store_without_tags_is_recorded"],
    ),
    Bug(
        "queues-not-in-the-checkpoint",
        "a flush does not update the checkpoint's offset of the queues",
        [
            Change(
                "            self._checkpoint.logics_physical_offset = logics_physical_offset(phy_offset, end)\n",
                "            pass\n",
            )
        ],
        [f"{STORE}/views/test_derived_profile.py"],
    ),
    Bug(
        "lost-system-queue-is-deleted",
        "verify mistakes a lost queue of a system topic for that of a deleted topic",
        [Change("        kept = is_system_topic(topic) or topic in self.unlisted\n", "        kept = False\n")],
        [f"{STORE}/fsck/test_lost_derived.py"],
    ),
    Bug(
        "lost-index-not-reported",
        "verify reports a missing index only if its directory or the checkpoint shows that one existed",
        [Change("            return record.index is not None\n", "            return False\n")],
        [f"{STORE}/fsck/test_lost_derived.py"],
    ),
    Bug(
        "repair-advised-for-ever",
        "verify advises a repair of findings that no repair can correct",
        [
            Change(
                "        if self._repairable and kinds - NOT_REPAIRED:\n", "        if self._steps is None and kinds:\n"
            )
        ],
        ["tests/rocketflow/cli/test_verify_hints.py"],
    ),
    Bug(
        "complete-repair-ends-with-1",
        "a repair that leaves no finding ends with an exit code other than 0",
        [
            Change(
                "        return repaired.exit_code if repaired.cut else code\n",
                "        return repaired.exit_code if repaired.cut else code or int(bool(repaired.steps))\n",
            )
        ],
        ["tests/rocketflow/cli/test_verify_hints.py"],
    ),
    Bug(
        "file-in-place-of-a-queue-stays",
        "verify does not report a file in place of a queue's directory, in which a repair then fails",
        [
            Change(
                '            found.add("foreign-file", one, 0, _size(one), "is a file, where a',
                '            _ = ("is a file, where a',
            )
        ],
        ["tests/rocketflow/cli/test_verify_hints.py"],
    ),
    Bug(
        "queue-does-not-refute-a-restored-record",
        "a record of a backup is put back although the unit of its queue names another",
        [
            Change(
                "        if known[here]:\n            return f\"the backup's",
                "        if False:\n            return f\"the backup's",
            )
        ],
        [f"{STORE}/fsck/test_put_back.py"],
    ),
    Bug(
        "record-of-another-store-put-back",
        "the bytes around damage are not compared with those of the backup",
        [Change("            if mine != others and mine and others:\n", "            if False:\n")],
        [f"{STORE}/fsck/test_put_back.py"],
    ),
    Bug(
        "restored-bytes-not-kept",
        "damaged bytes are overwritten without a copy in the quarantine",
        [
            Change(
                "                if np.frombuffer(old, np.uint8).any():\n                    kept",
                "                if False:\n                    kept",
            )
        ],
        [f"{STORE}/fsck/test_put_back.py"],
    ),
    Bug(
        "append-makes-stores",
        "append creates a store at a path without one",
        [Change("    if not create:\n        _check_exists(path, config)\n", "")],
        ["tests/rocketflow/cli/test_typos.py::test_append_creates_a_store_only_with_create"],
    ),
    Bug(
        "available-now-waits-for-a-topic",
        "a stream that ends by itself waits for a topic that does not exist",
        [Change("ends_by_itself=self._target is not None or not limited)", "ends_by_itself=False)")],
        [f"{NETWORK}/test_path_and_network.py"],
    ),
    Bug(
        "empty-topic-is-missing",
        "a configured topic without messages counts as missing",
        [
            Change(
                "    return chooser.missing([*queues, *stores.configured(chooser)])\n",
                "    return chooser.missing(queues)\n",
            )
        ],
        [f"{NETWORK}/test_path_and_network.py"],
    ),
    Bug(
        "system-topics-offered",
        "an error about a missing topic offers topics of the system",
        [Change("for name in known if not is_system_topic(_plain(name)))", "for name in known)")],
        [f"{NETWORK}/test_path_and_network.py"],
    ),
    Bug(
        "born-timestamp-overflows",
        "a time that no calendar has becomes another time",
        [Change("    known = (milliseconds >= FIRST_TIME_MS)", "    known = (milliseconds >= -(1 << 63))")],
        [f"{NETWORK}/test_path_and_network.py"],
    ),
    Bug(
        "seconds-as-milliseconds",
        "a time in seconds is taken as one of January 1970",
        [Change("    if number in _SECONDS:\n", "    if number in ():\n")],
        ["tests/rocketflow/process/test_times.py"],
    ),
    Bug(
        "offsets-of-unknown-topics",
        "starting offsets of a topic that is not subscribed are ignored",
        [Change("    _check_topics(choice, queues, named)\n", "")],
        ["tests/rocketflow/spark/source/test_stream_planner.py"],
    ),
    Bug(
        "unread-queues-unnoted",
        "a topic whose last queues take messages that no consumer reads is not noted",
        [Change("    if write_queues > read_queues:\n", "    if write_queues > read_queues + 1:\n")],
        ["tests/rocketflow/cli/admin/test_admin_commands.py"],
    ),
    Bug(
        "traceback-before-the-sentence",
        "Spark shows the traceback of a Python worker before the sentence of an error",
        [Change('        os.environ[_VARIABLE] = "1"\n', "        pass\n")],
        ["tests/rocketflow/spark/test_plain_errors.py"],
    ),
    Bug(
        "reset-reads-what-it-skips",
        "the batch of a reset reads the messages between the old positions and the new ones",
        [Change("        if end.resets:\n            return []\n", "")],
        [
            "tests/rocketflow/spark/test_checkpoint_reset.py::test_batch_of_a_reset_has_no_rows_and_the_next_one_begins_there"
        ],
    ),
    Bug(
        "reset-takes-an-old-batch",
        "a reset replaces the newest batch, whose id the sink may have committed",
        [
            Change(
                '        target = self.home / "offsets" / str(self.newest + 1)\n',
                '        target = self.home / "offsets" / str(self.newest)\n        target.unlink()\n',
            )
        ],
        [
            "tests/rocketflow/spark/test_checkpoint_reset.py::test_batch_of_a_reset_has_no_rows_and_the_next_one_begins_there"
        ],
    ),
    Bug(
        "reset-forgets-a-planned-batch",
        "queues that a reset does not name go on at the end of a batch that has not ended",
        [
            Change(
                "            found[key] = position.without_first()\n",
                "            found[key] = found.get(key) or position.without_first()\n",
            ),
            Change(
                "found[key] = None if position.first_offset is None else QueuePosition(position.first_offset)",
                "found[key] = QueuePosition(position.next_offset)",
            ),
        ],
        [
            "tests/rocketflow/spark/test_checkpoint_reset.py::test_queues_that_a_reset_does_not_name_repeat_a_batch_that_has_not_ended"
        ],
    ),
    Bug(
        "accepted-by-place",
        "a finding is accepted by its place alone, even if its bytes have changed",
        [
            Change(
                "        return self._key(finding) in self.known\n",
                "        return any(one[:4] == self._key(finding)[:4] for one in self.known)\n",
            )
        ],
        ["tests/rocketflow/cli/test_accepted_findings.py"],
    ),
    Bug(
        "unknown-lag-is-0",
        "the lag of a queue that a group never read is 0",
        [Change("        return {**found, **lag}  # ", "        return {**found, **dict.fromkeys(lag, 0)}  # ")],
        ["tests/rocketflow/cli/test_topics_and_groups.py"],
    ),
    Bug(
        "claims-believed",
        "a rebuild trusts every queue offset that a record claims, and reports no gap",
        [
            Change(
                "    merged, of = _merged(runs)\n",
                "    return JudgedClaims(_pieces(runs))\n    merged, of = _merged(runs)\n",
            )
        ],
        [f"{STORE}/fsck/test_lost_places.py"],
    ),
    Bug(
        "lost-units-are-clean",
        "verify treats the units of lost messages at a queue's end as valid",
        [
            Change(
                "                lost_messages += self._lost_messages(queue, first, units, high)\n",
                "                pass\n",
            )
        ],
        [f"{STORE}/fsck/test_lost_places.py"],
    ),
    Bug(
        "end-of-queue-not-expected",
        "a rebuild does not report the last messages of a queue as lost",
        [
            Change(
                "        if at < end and findings.log_end > 0 and not",
                "        if at > end and findings.log_end > 0 and not",
            )
        ],
        [f"{STORE}/fsck/test_lost_places.py"],
    ),
    Bug(
        "record-in-a-body-served",
        "a read by physical offset returns a record in a message's body as a message",
        [Change("return message if self.boundaries.begins(message) else None", "return message")],
        [f"{STORE}/reading/test_forged_places.py"],
    ),
    Bug(
        "chain-shorter-than-a-body",
        "a chain of records of 4 MiB proves a boundary where messages may be larger",
        [
            Change(
                "        most = max(_MAX_BODY, 0 if boundaries is None",
                "        most = min(_MAX_BODY, 0 if boundaries is not None",
            )
        ],
        [f"{STORE}/reading/test_forged_places.py"],
    ),
    Bug(
        "damaged-entry-in-silence",
        "a query by key meets a damaged index entry and reports nothing",
        [
            Change(
                """                    on_damage(self._path, at, "it is in the chain of another slot")
""",
                "                    pass\n",
            ),
        ],
        [f"{STORE}/reading/test_damaged_chains.py"],
    ),
    Bug(
        "damaged-place-in-silence",
        "an index entry with a damaged physical offset counts as that of a removed message",
        [Change("if on_damage is not None and not self._rises(at):", "if False:")],
        [f"{STORE}/reading/test_damaged_chains.py"],
    ),
    Bug(
        "index-header-believed",
        "the times of a damaged index header exclude its file from a query",
        [Change("        return 0 <= header.end_timestamp - last < 1000\n", "        return True\n")],
        [f"{STORE}/reading/test_damaged_chains.py"],
    ),
    Bug(
        "query-begins-at-a-whole-second",
        "a query by key compares its begin with the times of the index, which are rounded down",
        [Change("        begin = max(begin - _ROUNDED_MS, -_FOREVER_MS)\n", "")],
        [f"{STORE}/reading/test_index_query.py"],
    ),
    Bug(
        "first-entry-of-a-file-is-late",
        "the first entry of an index file counts as later by the pause after the file before it",
        [Change("self._table.entry(number)[2] if number > 1 else 0", "self._table.entry(number)[2]")],
        [f"{STORE}/reading/test_index_query.py"],
    ),
    Bug(
        "copied-unit-believed",
        "a unit that is a copy of its neighbour's hides its message from a read by tag",
        [Change("                keep |= queue.misplaced(first, stop)[offsets - first]\n", "                pass\n")],
        [f"{STORE}/reading/test_damaged_units.py"],
    ),
    Bug(
        "other-sizes-look-empty",
        "a reader skips a log's only file because of its size and shows no messages",
        [Change("        files.refuse_other_sizes()\n        view = ", "        view = ")],
        [f"{STORE}/metadata/test_file_sizes.py"],
    ),
    Bug(
        "bridge-copies-what-another-copied",
        "a bridge with another id copies a topic again that is already in the store",
        [Change("        if new and not self._options.restart:\n", "        if False:\n")],
        ["tests/rocketflow/kafka/test_claims.py"],
    ),
    Bug(
        "bridge-repeats-what-kafka-refuses",
        "a bridge sends a transaction with a record that Kafka refuses again, unchanged",
        [Change("        found = self._sender.take_suspect()\n", "        found = None\n")],
        [
            f"{KAFKA}/test_bad_input.py::test_message_that_kafka_refuses_unforeseen_is_found_and_raises_or_is_quarantined"
        ],
    ),
    Bug(
        "group-is-complete-before-its-partitions",
        "a bridge that shares a group ends as caught up when it is given partitions after it has looked",
        [Change("        return self._is_complete\n", "        return self._joined\n")],
        [
            "tests/rocketflow/kafka/test_kills.py"
            "::test_partitions_that_a_group_assigns_after_the_bridge_has_looked_are_copied"
        ],
    ),
    Bug(
        "flush-ends-at-a-division",
        "a transaction fails when the client divides a batch during the flush",
        [Change("                clients.flush(session.producer)\n", "                session.producer.flush()\n")],
        [f"{KAFKA}/test_refused_messages.py::test_batch_that_is_divided_while_the_producer_is_flushed_is_copied"],
    ),
    Bug(
        "waiting-bridge-has-no-lag",
        "a bridge reports no lag while its group assigns it no partitions",
        [Change("self._session.remaining(waiting or unread)", "self._session.remaining(unread)")],
        [f"{KAFKA}/test_kills.py::test_bridge_that_waits_for_its_group_reports_the_lag"],
    ),
    Bug(
        "worker-reports-closed-jvm-socket",
        "a Python worker prints that its last flush to an ended JVM failed",
        [Change("vars(daemon).update(traceback=_QuietTraceback, print=_print)\n", "")],
        ["tests/rocketflow/spark/test_quiet_daemon.py"],
    ),
    Bug(
        "rebuild-forgets-the-end-of-a-queue-of-one",
        "a rebuild leaves a queue as it is whose only message claims another place, and its offset is given twice",
        [
            Change(
                "log.end > 0 and not (exists and is_expired(state, key))",
                "log.end > 0 and not exists",
            )
        ],
        [f"{ROWS}/test_queue_gaps.py"],
    ),
    Bug(
        "damaged-batch-unit-ends-its-queue",
        "a reader takes the queue offset of a damaged last unit for the end of a BatchCQ topic's queue",
        [Change("        if holds is not None:\n            end = ", "        if False:\n            end = ")],
        [f"{STORE}/views/test_batch_queues.py"],
    ),  # -- jobs beside a broker
    Bug(
        "short-part-is-an-error-of-arrow",
        "a staged part that is shorter than announced is reported as cut while it was read, not as a damaged part",
        [Change("        if size < part.size or (part", "        if size < 0 or (part")],
        [f"{BESIDE}::test_refusals_through_the_broker_are_those_of_the_store"],
    ),
    Bug(
        "sends-refused-during-a-commit",
        "messages that waited for the put lock of a commit are refused as if the disk were slow",
        [Change("if max(one.arrived, self._held_until) >= before:", "if one.arrived >= before:")],
        [PUTS, f"{WAITING}::TestWaiting::runTest"],
    ),
    Bug(
        "late-sends-wait-for-a-stalled-append",
        "messages that have waited too long get no answer before the append ahead of them has ended",
        [Change("        self._refuse_waiting(self._waiting.take_late(now, limit_s), TIMEOUT_CLEAN_QUEUE)\n", "")],
        [f"{PUTS}::test_messages_that_wait_for_an_append_that_hangs_are_refused_before_it_ends"],
    ),
    Bug(
        "stuck-put-is-not-noticed",
        "messages are taken while a put holds the put lock longer than osPageCacheBusyTimeOutMills",
        [Change("        self._stuck = state.page_cache_busy\n", "")],
        [f"{PUTS}::test_messages_are_refused_while_a_put_holds_the_lock_for_too_long"],
    ),
    Bug(
        "broker-waits-for-a-stuck-put",
        "a broker's append waits for a put that holds the put lock longer than osPageCacheBusyTimeOutMills",
        [Change("        if self._put.is_page_cache_busy:\n", "        if False:\n")],
        [f"{STORE}/append/test_raw_append.py::test_appends_are_refused_while_a_put_holds_the_lock_for_too_long"],
    ),
    Bug(
        "one-close-looks-at-all-pulls",
        "the end of one connection looks at every pull that waits",
        [
            Change(
                "        for number, key in self._channels.pop(channel, {}).items():\n"
                "            self._remove_from_queue(key, number)\n",
                "        for key in list(self._queues):\n"
                "            self._take(key, lambda one: one.channel == channel)\n",
            )
        ],
        [f"{TABLES}::test_the_end_of_a_connection_costs_what_the_connection_holds"],
    ),
    Bug(
        "one-close-looks-at-all-groups",
        "the end of one connection looks at every consumer group",
        [
            Change(
                "names = list(self._channels.get(channel, {}))",
                "names = [name for name, group in self._groups.items() if channel in group.clients]",
            )
        ],
        [f"{TABLES}::test_the_end_of_a_connection_costs_what_the_connection_holds"],
    ),
    Bug(
        "client-id-forgotten-with-one-group",
        "a client that leaves one of its producer groups gets no replies for the others",
        [Change("        if self._ids[use]:\n            return\n        del self._ids[use]\n", "")],
        [f"{TABLES}::TestProducers::runTest"],
    ),
    Bug(
        "reconnected-broker-removed",
        "the end of a broker's former connection removes the broker that has registered on a new one",
        [
            Change(
                "        self._forget_live(key)\n        self._of_channel.setdefault",
                "        self._of_channel.setdefault",
            )
        ],
        ["tests/rocketflow/namesrv/test_route_table.py::TestRegistrations::runTest"],
    ),
    Bug(
        "failed-sync-acknowledges-what-is-in-the-log",
        "messages in the log are acknowledged although their sync failed",
        [Change("is_late = error is not None or not done.result()", "is_late = error is None and not done.result()")],
        ["tests/rocketflow/broker/test_put_gatherer.py"],
    ),
    Bug(
        "cold-batch-units-are-waited-for",
        "a read in the event loop waits for the disk for units of a BatchCQ topic",
        [
            Change("steps(offset, high, max_count, nowait=reading.nowait)", "steps(offset, high, max_count)"),
            Change("self._queues.bounds(topic, queue_id, nowait=nowait)", "self._queues.bounds(topic, queue_id)"),
        ],
        [f"{STORE}/reading/test_checked_read.py::test_cold_units_of_a_batch_queue_raise_would_block"],
    ),
    Bug(
        "arrival-during-a-cold-read-is-missed",
        "a message that arrives during a cold read does not answer the pull that begins to wait after it",
        [Change("await self._look_again(pull.header.topic, pull.header.queue_id)", "pass")],
        ["tests/rocketflow/broker/test_cold_pulls.py"],
    ),
    Bug(
        "answers-without-a-limit",
        "answers of requests that run as tasks are kept without a limit for a client that does not read",
        [Change("        if size and not self.channel.has_room_for(size):", "        if False:")],
        [f"{SILENT}::test_answers_above_a_connection_s_limit_become_code_2"],
    ),
    Bug(
        "requests-to-clients-without-a-limit",
        "a broker's requests to a client that does not read are kept without a limit",
        [Change("self._owner.limits_requests and not self.has_room_for(sum(map(len, frame)))", "False")],
        [f"{SILENT}::test_requests_to_a_client_that_does_not_read_are_refused_and_notices_dropped"],
    ),
    Bug(
        "notices-without-a-limit",
        "notices to a client that does not read are kept without a limit",
        [Change("if not self._owner.limits_requests or self.has_room_for(body_size):", "if True:")],
        [f"{SILENT}::test_requests_to_a_client_that_does_not_read_are_refused_and_notices_dropped"],
    ),
    Bug(
        "small-answers-are-not-counted",
        "unsent bytes that were written in small parts do not count for the limit of all connections",
        [Change("if self._transport.get_write_buffer_size() >= LARGE:", "if sum(map(len, out)) >= LARGE:")],
        [f"{SILENT}::test_unsent_bytes_of_small_answers_count_for_all_and_clients_that_read_are_answered"],
    ),
    # -- what clients send
    Bug(
        "half-without-a-reader",
        "a message with sysFlag 4 and without TRAN_MSG is acknowledged, and no reader sees it",
        [Change("if message.sys_flag & TRANSACTION_MASK in NEVER_QUEUED:", "if message.sys_flag in NEVER_QUEUED[:0]:")],
        [f"{PROPERTIES}::test_acknowledged_message_is_visible_or_waits_whatever_its_flags_say"],
    ),
    Bug(
        "retry-keeps-the-flag-of-a-half",
        "a delayed retry of a transaction's message is refused for the flag that old clients give it",
        [Change("message._replace(sys_flag=message.sys_flag & ~ROLLBACK) if is_retry else message", "message")],
        [f"{PROPERTIES}::test_delayed_retry_of_a_transactions_message_is_delivered_though_it_has_the_flag_of_a_half"],
    ),
    Bug(
        "delayed-send-names-another-queue",
        "the answer to a delayed send names a queue that its topic does not have",
        [
            Change(
                "            if result.queue_id != named:\n",
                "            if queue_id is not None:\n",
            )
        ],
        [f"{SENT}::test_sends_have_the_outcome_that_they_have_at_rocketmq_or_an_explained_one"],
    ),
    Bug(
        "level-above-the-last-kept",
        "a delay level above the last one is stored as the client sends it",
        [
            Change(
                "level, properties[PROPERTY_DELAY] = last, str(last)",
                "level = last",
            )
        ],
        [f"{SENT}::test_sends_have_the_outcome_that_they_have_at_rocketmq_or_an_explained_one"],
    ),
    Bug(
        "invalid-time-sent-again",
        "a message with an invalid time is answered with a code on which clients send again",
        [
            Change(
                "    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,\n"
                f"{UNAVAILABLE}    PutMessageStatus.OS_PAGE",
                f"{UNAVAILABLE}    PutMessageStatus.OS_PAGE",
            )
        ],
        [f"{SENT}::test_sends_have_the_outcome_that_they_have_at_rocketmq_or_an_explained_one"],
    ),
    Bug(
        "traces-by-region-refused",
        "topics whose names look like a broker's own take no messages",
        [
            Change(
                "name.startswith(OWN_PREFIX)",
                "name.startswith(SYSTEM_PREFIX)",
            )
        ],
        [f"{SENT}::test_sends_have_the_outcome_that_they_have_at_rocketmq_or_an_explained_one"],
    ),
    Bug(
        "compacted-topic-takes-no-key",
        "a topic that RocketMQ compacts takes messages without a key",
        [
            Change(
                "        if config.attributes:\n            _check_key(message, config)\n",
                "",
            )
        ],
        [f"{SENT}::test_sends_have_the_outcome_that_they_have_at_rocketmq_or_an_explained_one"],
    ),
    Bug(
        "dead-letter-without-a-level",
        "a dead letter of an orderly consumer has no DELAY",
        [
            Change(
                '_DELAY.sub(b"", message.properties) + _NO_DELAY',
                '_DELAY.sub(b"", message.properties)',
            )
        ],
        [f"{SENT}::test_sends_have_the_outcome_that_they_have_at_rocketmq_or_an_explained_one"],
    ),
    Bug(
        "delayed-batch-delivered-at-once",
        "a batch with a delay level is stored without a delay",
        [
            Change(
                "            if placed != batch.topic:\n",
                "            if not placed:\n",
            )
        ],
        [f"{SENT}::test_sends_have_the_outcome_that_they_have_at_rocketmq_or_an_explained_one"],
    ),
    Bug(
        "client-sets-the-brokers-properties",
        "properties that the broker sets are stored as a client sends them",
        [Change('return _DROPPED.sub("", "\\x02" + text)[1:]', "return text")],
        [f"{PROPERTIES}::test_any_properties_in_any_order_lose_those_of_the_broker"],
    ),
    Bug(
        "table-is-written-for-each-name",
        "a heartbeat with many groups writes the tables of groups and topics once for each of them",
        [
            Change(
                "                await _kept(self._table.put, *state.planned.values())\n",
                "                for config in state.planned.values():\n"
                "                    await _kept(self._table.put, config)\n",
            )
        ],
        [f"{WRITES}::test_heartbeat_with_many_groups_writes_each_table_once"],
    ),
    Bug(
        "heartbeat-makes-any-number-of-groups",
        "one heartbeat makes as many groups as it names",
        [Change("if len(new) > MAX_NEW_GROUPS:", "if len(new) > 1 << 30:")],
        [f"{WRITES}::test_heartbeat_with_too_many_new_groups_is_refused_and_makes_none"],
    ),
    Bug(
        "refused-change-fails-those-beside-it",
        "a topic that the store refuses fails the requests that share its write",
        [Change("            if len(planned) > 1:  #", "            if len(planned) > 1 << 30:  #")],
        [f"{WRITES}::test_change_that_the_store_refuses_does_not_fail_those_beside_it"],
    ),
    # -- transactions
    Bug(
        "half-message-keeps-its-flag",
        "a half message is stored with the flag of one, so that it has no place in the half queue",
        [Change("sys_flag=message.sys_flag & ~ROLLBACK,\n        is_internal=True,", "is_internal=True,")],
        [f"{TRANSACTIONS}::test_half_message_keeps_what_the_client_sent_but_not_what_is_the_broker_s"],
    ),
    Bug(
        "client-names-the-real-topic",
        "a client's own REAL_TOPIC stays in a half message",
        [Change('properties = _BROKERS.sub(b"", properties)', "properties = message.properties")],
        [f"{TRANSACTIONS}::test_half_message_keeps_what_the_client_sent_but_not_what_is_the_broker_s"],
    ),
    Bug(
        "mark-without-its-commit",
        "an op mark is stored although the store refused the message that it commits",
        [Change("needs=len(messages), commits=ended)", "needs=0, commits=ended)")],
        [f"{TRANSACTIONS}::TestTransactionMachine::runTest"],
    ),
    Bug(
        "needs-are-not-checked",
        "the store keeps a message without those that it needs",
        [Change("if len(before) < needs or not all(", "if not before and not all(")],
        [f"{STORE}/append/test_raw_append.py"],
    ),
    Bug(
        "refused-copy-is-passed",
        "a half message whose copy the store could not take is passed as if it had been copied",
        [
            Change(
                "            await self._act(scan, now_ms)\n            self._walk.next_offset = scan.next_offset\n",
                "            self._walk.next_offset = scan.next_offset\n            await self._act(scan, now_ms)\n",
            )
        ],
        [f"{TRANSACTIONS}::TestTransactionMachine::runTest"],
    ),
    Bug(
        "offset-passes-waiting-messages",
        "the stored offset of the half queue passes messages that wait for their immunity time",
        [Change("return min([*self._waiting, self.next_offset])", "return self.next_offset")],
        [f"{TRANSACTIONS}::test_first_undecided_half_message_is_one_that_waits"],
    ),
    Bug(
        "waiting-message-is-asked-about-after-its-end",
        "a half message that waits for its immunity time is asked about although its producer has ended it",
        [
            Change("            self._walk.drop_marked(self._marks.__contains__)\n", ""),
            Change("self._halves(one for one in offsets if not is_marked(one))", "self._halves(offsets)"),
            Change("            elif self.undecided(one.half) == offset:\n", "            else:\n"),
        ],
        [f"{TRANSACTIONS}::TestTransactionMachine::runTest"],
    ),
    Bug(
        "decided-half-message-is-ended-again",
        "a transaction that ends twice is committed twice",
        [Change("return None if is_decided else offset", "return offset")],
        [f"{TRANSACTIONS}::test_end_that_names_an_older_copy_ends_the_newest_also_after_a_restart"],
    ),
    Bug(
        "older-copy-is-ended-beside-the-newest",
        "a late answer to the first question commits the older copy, and the next answer the newer one",
        [
            Change(
                "        if newest is not None:\n            return newest\n        if self.decisions",
                "        if self.decisions",
            )
        ],
        [f"{TRANSACTIONS}::test_end_that_names_an_older_copy_ends_the_newest_also_after_a_restart", LATE],
    ),
    Bug(
        "end-during-a-copy-is-refused",
        "the end of a half message is refused if it arrives while a check notes the copy that replaces it",
        [Change("is_held(offset):  # it may be marked already", "is_held(-1):  # it may be marked already")],
        [f"{TRANSACTIONS}::test_end_that_arrives_while_a_copy_is_being_noted_ends_the_copy"],
    ),
    Bug(
        "ends-of-one-iteration-are-both-stored",
        "two answers about a half message that arrive together are both carried out",
        [Change("elif self._decisions.is_held(newest):", "elif self._decisions.is_held(-1):")],
        [LATE],
    ),
    Bug(
        "half-message-is-copied-beside-its-end",
        "a half message is copied while its end is being written: its producer is asked again",
        [
            Change("            if self.decisions.is_held(offset):", "            if self.decisions.is_held(-1):"),
            Change(
                "        self._held.update((one, []) for one in half_offsets)\n",
                "        for one in half_offsets:\n            self._held.setdefault(one, [])\n",
            ),
        ],
        [f"{TRANSACTIONS}::test_half_message_that_is_ended_beside_a_check_is_decided_once"],
        seeds=SEEDS,  # a thread reads: the moments of a round vary
    ),
    Bug(
        "copies-are-unknown-after-a-restart",
        "after a restart an answer that names an older copy is refused, or commits it",
        [Change("                    self.decisions.copied(chain, offset)\n", "                    pass\n")],
        [f"{TRANSACTIONS}::test_end_that_names_an_older_copy_ends_the_newest_also_after_a_restart"],
    ),
    Bug(
        "ends-are-unknown-after-a-restart",
        "an end that is repeated after a restart is refused though it is the one that was stored",
        [Change("self.decisions.end(offset, is_commit=place < mark.commits)", "pass")],
        [f"{TRANSACTIONS}::test_end_that_names_an_older_copy_ends_the_newest_also_after_a_restart"],
    ),
    Bug(
        "copy-does-not-name-its-first",
        "a copy of a half message is the first of a chain of its own",
        [Change("    properties = _with_chain(half)\n", "    properties = half.stored.message.properties\n")],
        [f"{TRANSACTIONS}::test_end_that_names_an_older_copy_ends_the_newest_also_after_a_restart"],
    ),
    Bug(
        "stored-half-messages-are-not-counted",
        "half messages from before the start are missing in the count of undecided ones",
        [Change("        for topic in topics.values():\n            self._broker.counts.half(topic, 1)\n", "")],
        [f"{TRANSACTIONS}::TestTransactionMachine::runTest"],
    ),
    Bug(
        "immunity-time-is-ignored",
        "a message's own immunity time does not hold off the check",
        [Change("return Decision.WAIT if age_ms <= half.immunity_s * 1000 else", "return Decision.CHECK if half else")],
        [f"{TRANSACTIONS}::test_decision_follows_from_age_and_immunity"],
    ),
    Bug(
        "check-holds-up-sends",
        "a check copies thousands of half messages at once, so that sends wait for them",
        [
            Change("MAX_ACTED: Final = 500", "MAX_ACTED: Final = 9_000"),
            Change("MAX_ACTED_BYTES: Final = 2 * 1024 * 1024", "MAX_ACTED_BYTES: Final = 64 * 1024 * 1024"),
        ],
        [f"{ROWS}/network/test_many_half_messages.py"],
    ),
    Bug(
        "end-of-another-place",
        "the end of a transaction is taken at another place of the log than its half message's",
        [Change("half.stored.phy_offset != header.commit_log_offset", "header.commit_log_offset < 0")],
        [f"{ROWS}/network/test_transactions.py::test_end_of_another_half_message_is_refused"],
    ),
    Bug(
        "lost-answer-looks-like-another-process",
        "progress whose answer was lost looks as if another process had moved it",
        [Change("action(_Repeated(commits) if repeats else commits)", "action(commits)")],
        [f"{BESIDE}::test_a_lost_answer_is_repaired_by_repeating"],
    ),
    Bug(
        "bridge-plans-a-repeated-commit-anew",
        "a bridge whose commit was done, but not answered, takes it for another bridge's",
        [Change("        if self._planned is None:\n", "        if True:\n")],
        [f"{KAFKA}/test_beside_broker.py::test_bridge_commits_through_the_broker"],
    ),
    Bug(
        "a-part-names-any-file",
        "a request of a job makes the broker read files outside of the directory of its batch",
        [Change(r'"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}\Z")]', '".+")]')],
        [f"{BESIDE}::test_a_request_cannot_name_files_outside_of_its_batch"],
    ),
    # -- topics and groups of a broker
    Bug(
        "attributes-of-a-topic-are-lost",
        "a change of a topic drops the attributes that it does not name",
        [Change("    found = dict(known or {})\n", "    found: dict[str, str] = {}\n")],
        ["tests/rocketflow/broker/test_attributes.py", f"{CHANGES}::{KEPT}"],
    ),
    Bug(
        "every-topic-is-made-anew",
        "a topic that changes is taken for one that is being made: its queue.type changes too",
        [
            Change(
                "merged_attributes(now.attributes if now else None, one.attributes, OF_TOPICS)",
                "merged_attributes(None, one.attributes, OF_TOPICS)",
            )
        ],
        [f"{CHANGES}::test_the_type_of_queues_stays_when_the_topic_changes"],
    ),
    Bug(
        "attribute-of-any-value",
        "an attribute is set to a value that it cannot have",
        [Change("            allowed[name].check(name, value)\n", "")],
        [
            "tests/rocketflow/broker/test_attributes.py",
            f"{CHANGES}::test_attributes_that_are_not_allowed_change_nothing",
        ],
    ),
    Bug(
        "list-of-topics-is-written-as-it-is-read",
        "a topic in a list is compared with what is stored, not with what the list made of it before",
        [
            Change(
                "        now = planned.get(name) or known(name)\n        try:",
                "        now = known(name)\n        try:",
            )
        ],
        [f"{CHANGES}::test_a_list_of_topics_with_a_bad_one_changes_none"],
    ),
    # -- rows, messages, units and entries in the kernel
    Bug(
        "kernel-ids-are-one",
        "the kernel gives all rows of a chunk the same UNIQ_KEY",
        [Change("tick = self.tick + <uint64_t>row", "tick = self.tick")],
        [f"{ENCODED}::test_rows_are_encoded_to_the_same_bytes_and_facts_by_kernel_and_python"],
    ),
    Bug(
        "null-is-a-text",
        "the bytes that a null of a column may have become keys of the index",
        [Change("column is None or column.null_count == 0 else column.fill_null", "True else column.fill_null")],
        [f"{STORE}/records/test_property_columns.py::test_null_that_has_bytes_is_no_text"],
    ),
    Bug(
        "kernel-surrogates",
        "the kernel hashes characters beyond the first plane as one unit",
        [Change("            value = value * 31u + (0xD800u + ((point - 0x10000u) >> 10))\n", "")],
        [f"{ENCODED}::test_rows_are_encoded_to_the_same_bytes_and_facts_by_kernel_and_python"],
    ),
    Bug(
        "kernel-row-ends-as-crc",
        "the kernel stores rows whose properties end as the CRC of a record",
        [
            Change(
                " or (not self.reserved and size >= CRC_PROPERTY_SIZE and ends_like_crc(to)):",
                ":",
            )
        ],
        [f"{ENCODED}::test_usual_rows_are_not_left_over_and_unusual_ones_are"],
    ),
    Bug(
        "kernel-crc-of-all",
        "the kernel calculates a record's CRC over its own digits",
        [
            Change(
                "cdef uint32_t crc = crc32_of(record, size - CRC_PROPERTY_SIZE) & 0x7FFFFFFFu",
                "cdef uint32_t crc = crc32_of(record, size) & 0x7FFFFFFFu",
            )
        ],
        [f"{ENCODED}::test_places_and_crcs_of_records_are_written_as_python_writes_them"],
    ),
    Bug(
        "kernel-place-outside",
        "the kernel writes the place of a record that reaches outside of its bytes",
        [Change("or starts[row] > octets.shape[0] - sizes[row]", "or starts[row] > octets.shape[0]")],
        [f"{ENCODED}::test_records_that_reach_outside_of_their_bytes_are_left_over_unchanged"],
    ),
    Bug(
        "kernel-content-without-queue",
        "the kernel's hash of a row does not depend on its queue",
        [Change("mixed = splitmix(mixed ^ <uint64_t><int64_t>hashed_queues[row])", "pass")],
        [f"{ENCODED}::test_rows_are_encoded_to_the_same_bytes_and_facts_by_kernel_and_python"],
    ),
    Bug(
        "kernel-run-over-a-gap",
        "the kernel writes units after a gap of queue offsets as if there were none",
        [Change("if not queues[queue, 1] or queues[queue, 2] != queue_offsets[row]:", "if not queues[queue, 1]:")],
        [f"{UNITS}::test_units_are_written_in_the_same_runs_by_kernel_and_python"],
    ),
    Bug(
        "only-one-files-bytes-are-compared",
        "a rebuild keeps an old file with bytes where the new one has none",
        [
            Change(
                "*os_files.data_ranges(first, one, 0, size), *os_files.data_ranges(second, other, 0, size)",
                "*os_files.data_ranges(first, one, 0, size)",
            )
        ],
        [f"{STORE}/rebuild/test_rebuild.py::test_files_with_different_holes_are_compared_byte_for_byte"],
    ),
    Bug(
        "kernel-run-of-two-queues",
        "the kernel takes rows of two queues for one run",
        [
            Change(
                "if before < 0 or queue_of[row] != queue_of[before] or queue_offsets[row]",
                "if before < 0 or queue_offsets[row]",
            )
        ],
        [f"{UNITS}::test_rows_come_together_by_queue_as_without_the_kernel"],
    ),
    Bug(
        "kernel-rows-over-a-gap",
        "the kernel takes rows around a gap of queue offsets for one run",
        [
            Change(
                "if before < 0 or queue_of[row] != queue_of[before] or queue_offsets[row] != <int64_t>(",
                "if before < 0 or queue_of[row] != queue_of[before] or 0 > <int64_t>(",
            )
        ],
        [f"{UNITS}::test_rows_come_together_by_queue_as_without_the_kernel"],
    ),
    Bug(
        "kernel-built-slots",
        "the kernel counts a used slot of a built index file again",
        [Change("started += newest[slot] == 0", "started += 1")],
        [f"{UNITS}::test_index_file_is_built_alike_by_kernel_and_python"],
    ),
    Bug(
        "kernel-built-times",
        "the kernel measures all entries of a built index file against the time carried over",
        [Change("                begin = time  # only", "                pass  # only")],
        [f"{UNITS}::test_index_file_is_built_alike_by_kernel_and_python"],
    ),
    Bug(
        "kernel-damaged-slot",
        "the kernel links an entry to what damage left in its slot",
        [
            Change(
                "            if previous < 0 or previous >= first + row and previous > first or previous > first and (",
                "            if previous < 0 or previous >= first + row and previous > first or False and (",
            )
        ],
        [f"{UNITS}::test_entries_slots_and_header_of_an_index_file_are_the_same_by_kernel_and_python"],
    ),
    Bug(
        "kernel-entry-of-begin",
        "the kernel measures all first entries of a file against the time carried over",
        [Change("                begin = store_timestamps[0]  # the", "                pass  # the")],
        [f"{UNITS}::test_entries_slots_and_header_of_an_index_file_are_the_same_by_kernel_and_python"],
    ),
    Bug(
        "kernel-delayed-now",
        "the kernel stores a message with a delay level among its properties at once",
        [Change('or is_named(at, size, b"DELAY", 5) or', "or")],
        [f"{COMPILED_PUTS}::test_requests_have_the_same_results_and_files_by_kernel_and_python"],
    ),
    Bug(
        "kernel-last-id-is-empty",
        "in a batch an empty UNIQ_KEY hides the one before it",
        [Change("        if close > value:\n", "        if close >= value:\n")],
        [f"{COMPILED_PUTS}::test_requests_have_the_same_results_and_files_by_kernel_and_python"],
    ),
    Bug(
        "kernel-batch-without-separator",
        "the kernel joins the properties of a batch and of its entry without a separator",
        [Change("elif (more_size or self.reserved) and to[-1] != 2:", "elif False:")],
        [f"{COMPILED_PUTS}::test_requests_have_the_same_results_and_files_by_kernel_and_python"],
    ),
    Bug(
        "kernel-properties-of-another-moment",
        "the kernel writes properties that changed since it took their size",
        [
            Change(
                "        for name, value in pairs:\n            at = text_at(name, &size)\n            to =",
                "        for name, value in properties.items():\n            at = text_at(name, &size)\n"
                "            to =",
            )
        ],
        [f"{COMPILED_PUTS}::test_message_that_changes_while_it_is_encoded_stays_within_its_bytes"],
    ),
    Bug(
        "kernel-tag-entries-of-old-profiles",
        "the kernel indexes the TAGS of messages for brokers before 5.4 too",
        [Change("if tags_size and self.tag_entries:", "if tags_size:")],
        [f"{COMPILED_PUTS}::test_requests_have_the_same_results_and_files_by_kernel_and_python"],
    ),
    Bug(
        "route-puts-into-a-fenced-store",
        "the kernel stores single messages after a failed sync",
        [Change("self.fence.error is not None or self.dispatch.failure", "self.dispatch.failure")],
        [f"{ROUTED}::test_message_is_left_over_for"],
    ),
    Bug(
        "route-puts-over-the-end-of-a-file",
        "the kernel leaves no space for the blank record at the end of a log file",
        [Change("end > self.log_stop or end > self.log.stop:", "end > self.log.stop:")],
        [f"{ROUTED}::test_message_that_leaves_no_space_for_a_blank_begins_the_next_file"],
    ),
    Bug(
        "route-time-goes-back",
        "the kernel gives a single message an older store time than the one before it when the clock was set back",
        [
            Change(
                "            now = self.newest.numbers[0]\n        if self.ids",
                "            pass\n        if self.ids",
            ),
            Change(
                "                or now < self.newest.numbers[0] or not self.is_open\n",
                "                or not self.is_open\n",
            ),
        ],
        [f"{ROUTED}::test_puts_have_the_same_results_and_files_by_route_and_python"],
    ),
    Bug(
        "route-does-not-confirm",
        "the kernel stores single messages that readers of other processes do not see",
        [Change("            memcpy(self.confirm.at + CONFIRM_AT, &end, 8)\n", "")],
        [f"{ROUTED}::test_usual_messages_are_taken_and_readers_see_each_at_once"],
    ),
    Bug(
        "route-units-are-not-synced",
        "a flush does not sync the queues of single messages that the kernel stored",
        [Change("            if marks[0] < 0 or at < marks[0]:\n", "            if at < marks[0]:\n")],
        [f"{ROUTED}::test_flush_makes_durable_what_was_stored_through_windows"],
    ),
    Bug(
        "route-turn-is-not-taken",
        "the kernel puts all messages without a queue to the same one",
        [Change("            after = turn + 1\n" if False else "        after = turn + 1\n", "        after = turn\n")],
        [f"{ROUTED}::test_puts_have_the_same_results_and_files_by_route_and_python"],
    ),
    Bug(
        "kernel-commit-of-other-tags",
        "the kernel takes a row with another tags code for proven",
        [Change("if tags_codes[row] != <int32_t>state:\n", "if False:\n")],
        [f"{JUDGED}::test_rows_that_are_not_as_their_columns_claim_have_the_same_fault_by_kernel_and_python"],
    ),
    Bug(
        "kernel-commit-of-other-body",
        "the kernel takes a row whose body has another CRC for proven",
        [Change("(crc32_of(record + HEAD_SIZE, body) & 0x7FFFFFFFu) != get32(record + 8)", "False")],
        [f"{JUDGED}::test_rows_that_are_not_as_their_columns_claim_have_the_same_fault_by_kernel_and_python"],
    ),
    Bug(
        "kernel-commit-of-store-property",
        "the kernel takes a row with a property that only the store sets for proven",
        [
            Change(
                'elif not is_usual_name(at, name) and not (name == 13 and memcmp(at, b"__SHARDINGKEY", 13) == 0):',
                "elif False:",
            )
        ],
        [f"{JUDGED}::test_rows_with_properties_that_only_the_store_sets_are_left_over"],
    ),
    Bug(
        "kernel-crc-of-eight-bytes",
        "the kernel's CRC takes one byte twice and another one never",
        [Change("crc_tables[0][high >> 24]", "crc_tables[0][high >> 16 & 255u]")],
        ["tests/store/kernel/test_loading.py::test_crc_is_that_of_java"],
    ),
    Bug(
        "kernel-crc-of-a-short-lane",
        "the kernel adds the register of a CRC to the first lane alone",
        [Change("_mm_xor_si128(crc_load(at + head), crc_moved(start, 16 + head))", "crc_load(at + head)")],
        [f"{STORE}/kernel/test_loading.py"],
    ),
    Bug(
        "pulled-messages-of-another-range",
        "columns of an answer have messages that were not asked for",
        [Change("if offsets.min() < start or offsets.max() >= end:", "if False:")],
        ["tests/store/reading/test_pulled_records.py::test_messages_outside_of_the_range_are_ignored"],
        with_kernel=True,
    ),
    Bug(
        "pulled-bodies-not-checked",
        "columns of an answer have bodies whose CRC is wrong",
        [Change("contents = EVERY_CRC if decodes", "contents = RECORD_CRC if decodes")],
        ["tests/store/reading/test_pulled_records.py::test_changed_body_of_a_record_without_its_own_crc_is_a_fault"],
        with_kernel=True,
    ),
    Bug(
        "pulled-inner-batches-as-one-message",
        "columns of an answer have a record of several messages as one",
        [Change("checked is None or checked.flags & WRAPPED == WRAPPED else", "checked is None else")],
        ["tests/store/reading/test_pulled_records.py::test_records_of_every_kind_are_those_of_a_read_by_path"],
        with_kernel=True,
    ),
    Bug(
        "kernel-batch-of-two-topics",
        "the kernel puts messages of two topics into one batch",
        [Change("if given is not topic and (type(given) is not str or given != topic):", "if False:")],
        ["tests/store/kernel/test_batch_bodies.py::test_unusual_message_leaves_its_batch_over_and_changes_nothing"],
    ),
    Bug(
        "kernel-batch-keeps-new-keys",
        "messages of a batch that the kernel leaves over keep the keys that it gave them",
        [Change("for one in batch.given:", "for one in ():")],
        ["tests/store/kernel/test_batch_bodies.py::test_unusual_message_leaves_its_batch_over_and_changes_nothing"],
    ),
    Bug(
        "kernel-batch-too-large",
        "the kernel makes batches that are larger than a producer allows",
        [Change("if size > most - self.size:", "if False:")],
        ["tests/store/kernel/test_batch_bodies.py::test_body_and_keys_of_usual_messages_are_those_of_python"],
    ),
    Bug(
        "kernel-columns-of-another-place",
        "the kernel returns the record of another physical offset",
        [Change("<int64_t>get64(at + 28) != places[row] or <int64_t>get64(at + 20)", "<int64_t>get64(at + 20)")],
        ["tests/store/kernel/test_checked_columns.py::test_record_of_another_place_is_left_over"],
    ),
    Bug(
        "kernel-columns-of-another-offset",
        "the kernel returns the record of another queue offset",
        [Change(" or <int64_t>get64(at + 20) != queue_offsets[row]", "")],
        ["tests/store/kernel/test_checked_columns.py::test_record_of_another_place_is_left_over"],
    ),
    Bug(
        "kernel-columns-of-another-queue",
        "the kernel returns the record of another queue",
        [Change("<int32_t>get32(at + 12) != queue_id", "False")],
        ["tests/store/kernel/test_checked_columns.py::test_record_of_another_place_is_left_over"],
    ),
    Bug(
        "kernel-columns-of-another-topic",
        "the kernel returns the record of another topic of the same length",
        [
            Change(
                "if parts.topic_size != topic_size or memcmp(at + parts.topic, topic_at, topic_size) != 0",
                "if parts.topic_size < topic_size - 99",
            )
        ],
        ["tests/store/kernel/test_checked_columns.py::test_record_of_another_place_is_left_over"],
    ),
    Bug(
        "kernel-returns-compressed-bodies",
        "the kernel returns compressed bodies as they are stored",
        [Change(" or parts.sys_flag & left_over_flags", "")],
        ["tests/store/kernel/test_checked_columns.py::test_columns_are_those_of_sound_records"],
        seeds=20,
    ),
    Bug(
        "kernel-hides-a-record-without-crc",
        "the kernel forgets the first record without a CRC of its own",
        [
            Change(
                "                    if bare_first < 0:\n                        bare_first = bare_last",
                "                    bare_first = bare_last",
            )
        ],
        ["tests/store/kernel/test_checked_columns.py::test_columns_are_those_of_sound_records"],
        seeds=20,
    ),
    Bug(
        "kernel-times-of-no-calendar",
        "the kernel returns a time that no calendar has",
        [Change("if value < field.low or value >= field.end", "if value >= field.end")],
        ["tests/store/kernel/test_checked_columns.py::test_columns_are_those_of_sound_records"],
        seeds=20,
    ),
    Bug(
        "kernel-number-after-a-host",
        "the kernel reads a number behind the wrong host",
        [Change("at += parts.born_more\n    elif", "at += parts.hosts_more\n    elif")],
        ["tests/store/kernel/test_checked_columns.py::test_columns_are_those_of_sound_records"],
        seeds=20,
    ),
    Bug(
        "kernel-empty-value-for-none",
        "the kernel returns an empty value where a record has none",
        [Change("        if found[one].size:\n", "        if True:\n")],
        ["tests/store/kernel/test_checked_columns.py::test_leading_and_missing_values_are_null_as_without_the_kernel"],
    ),
    Bug(
        "kernel-first-of-duplicates",
        "the kernel takes the first of two properties of one name",
        [
            Change(
                "if size == names.names[one].size and at[0]",
                "if values[one].at == NULL and size == names.names[one].size and at[0]",
            )
        ],
        ["tests/store/kernel/test_checked_columns.py::test_leading_and_missing_values_are_null_as_without_the_kernel"],
    ),
    Bug(
        "kernel-record-crc-unchecked",
        "the kernel does not compare a record's own CRC",
        [
            Change(
                "return 1 if value == <int64_t>actual else -1",
                "return 1",
            )
        ],
        ["tests/store/kernel/test_checked_columns.py::test_each_changed_byte_is_judged_as_by_python"],
    ),
    Bug(
        "kernel-body-crc-unchecked",
        "the kernel does not compare a body's CRC",
        [Change("if bodies and crc32_of(", "if False and crc32_of(")],
        ["tests/store/kernel/test_checked_columns.py::test_each_changed_byte_is_judged_as_by_python"],
    ),
    Bug(
        "kernel-zeros-for-properties",
        "the kernel takes zeros for properties",
        [Change("if parts.properties_size and parts.record[parts.size - 1] == 0", "if False")],
        ["tests/store/kernel/test_walk.py::test_unusual_record_is_left_over"],
    ),
    Bug(
        "kernel-topic-of-a-negative-size",
        "the kernel takes a topic of 128 bytes or more in a record of version 1",
        [Change("parts.topic_size = <int8_t>record[at]", "parts.topic_size = record[at]")],
        ["tests/store/kernel/test_walk.py::test_topic_of_a_negative_size_is_left_over"],
    ),
    Bug(
        "kernel-walk-to-another-place",
        "the walk takes a record that says it is elsewhere",
        [Change("if place != base + positions[row] or judged < 0", "if judged < 0")],
        ["tests/store/kernel/test_walk.py::test_unusual_record_is_left_over"],
    ),
    Bug(
        "kernel-walk-without-required-crc",
        "the walk takes a record without the CRC that its writer gives every record",
        [Change("if crc_from <= place < crc_to", "if crc_from < place < crc_to - 1000")],
        ["tests/store/kernel/test_walk.py::test_rows_of_sound_records_are_those_of_dispatch"],
        seeds=20,
    ),
    Bug(
        "kernel-walk-without-magic-code",
        "the walk takes bytes without a magic code for a record",
        [Change(" or (magic != MAGIC_V1 and magic != MAGIC_V2):", ":")],
        ["tests/store/kernel/test_walk.py::test_scan_is_that_of_python"],
    ),
    Bug(
        "kernel-unit-of-a-prepared-record",
        "the walk gives a prepared record a unit",
        [Change("parts.sys_flag & (NO_QUEUE_KINDS | 0x80)", "parts.sys_flag & 0x80")],
        ["tests/store/kernel/test_walk.py::test_unusual_record_is_left_over"],
    ),
    Bug(
        "kernel-lmq-without-units",
        "the walk forgets the LMQs of a record",
        [Change("if values[LMQ_OFFSETS].size or text_hash", "if text_hash")],
        ["tests/store/kernel/test_walk.py::test_unusual_record_is_left_over"],
    ),
    Bug(
        "kernel-hash-of-a-pair",
        "the walk hashes a character of two UTF-16 units as one",
        [Change("            point = 0xDC00u + (point & 0x3FFu)\n", "            point = 0xDC00u\n")],
        ["tests/store/kernel/test_walk.py::test_rows_of_sound_records_are_those_of_dispatch"],
        seeds=20,
    ),
    Bug(
        "kernel-hash-of-no-text",
        "the walk hashes half of a surrogate pair",
        [Change("(point < 0x800u or 0xD800u <= point < 0xE000u)", "(point < 0x800u)")],
        ["tests/store/kernel/test_walk.py::test_unusual_record_is_left_over"],
    ),
    Bug(
        "kernel-key-with-blanks",
        "the walk makes one entry of several keys",
        [Change("memchr(at, 0x20, end - at)", "memchr(at, 0x09, end - at)")],
        ["tests/store/kernel/test_walk.py::test_rows_of_sound_records_are_those_of_dispatch"],
    ),
    Bug(
        "kernel-tags-without-their-mark",
        "the walk hashes TAGS without the mark of tags",
        [Change("        text_hash(&before, tag_prefix.at, tag_prefix.size)\n", "")],
        ["tests/store/kernel/test_walk.py::test_rows_of_sound_records_are_those_of_dispatch"],
    ),
    Bug(
        "kernel-unit-of-another-size",
        "the kernel takes a unit with another size for the record's",
        [Change(" or <int32_t>get32(unit + 8) != sizes[row]", "")],
        ["tests/store/kernel/test_verify.py::test_unit_that_differs_is_not_the_records"],
    ),
    Bug(
        "kernel-unit-of-other-tags",
        "the kernel takes a unit with another tags code for the record's",
        [Change("if tags and <int64_t>get64(unit + 12) != codes[row]", "if False")],
        ["tests/store/kernel/test_verify.py::test_unit_that_differs_is_not_the_records"],
    ),
    Bug(
        "kernel-entry-of-another-time",
        "the kernel takes an index entry with another time for the record's",
        [Change("if <int32_t>get32(entry + 12) != seconds_since(begin, times[at])", "if False")],
        ["tests/store/kernel/test_verify.py::test_entry_that_differs_is_wrong"],
    ),
    Bug(
        "kernel-entry-in-order-of-another-time",
        "the kernel takes an index entry in its place with another time for the record's",
        [Change(" and seconds_since(begin, times[at]) != <int32_t>get32(entry + 12):", " and False:")],
        ["tests/store/kernel/test_verify.py::test_index_in_the_order_of_dispatch_has_exactly_its_entries"],
    ),
    Bug(
        "kernel-skips-an-entry-that-must-be-there",
        "the kernel does not miss an index entry before another one",
        [
            Change(
                "while at < total and pairs[at] != wanted and not must[at]:",
                "while at < total and pairs[at] != wanted:",
            )
        ],
        ["tests/store/kernel/test_verify.py::test_index_in_the_order_of_dispatch_has_exactly_its_entries"],
    ),
    Bug(
        "kernel-forgives-entries-of-tags",
        "the kernel takes all entries of TAGS for those of a broker that omits them",
        [Change("must[one] = not of_tag[one] or with_tags[row] != 0", "must[one] = not of_tag[one]")],
        ["tests/store/kernel/test_verify.py::test_index_is_compared_with_records_as_without_the_kernel"],
    ),
    Bug(
        "kernel-last-delay-level",
        "the walk takes a level after the last one for another",
        [Change("level = min(level, levels)", "level = min(level, 1)")],
        ["tests/store/kernel/test_walk.py::test_delayed_records_have_the_time_of_their_level"],
    ),
    Bug(
        "unknown-members-of-a-topic-are-lost",
        "members that this version does not know are dropped when a topic or a group is changed",
        [
            Change(
                "extra = {**(known.unknown if known else {}), **self.unknown}",
                "extra = self.unknown",
            )
        ],
        ["tests/store/tables/test_table_rows.py::test_a_change_keeps_what_its_request_does_not_know"],
    ),
    Bug(
        "answer-waits-for-no-name-server",
        "a commit that makes a topic is answered before NameServers know the topic",
        [Change("        if self._topics.changes != before:\n            await self._topics.registered()\n", "")],
        [
            "tests/rocketflow/broker/test_registration.py"
            "::test_commit_that_makes_a_topic_is_answered_once_the_name_server_knows_it"
        ],
    ),
    Bug(
        "groups-before-a-bad-one-are-kept",
        "the groups of a list before one with a bad name are made although the request is refused",
        [
            Change(
                "            validate_group(name)\n            now = planned.get(name)",
                "            now = planned.get(name)",
            )
        ],
        [f"{CHANGES}::test_a_list_of_groups_with_a_bad_one_changes_none"],
    ),
    Bug(
        "expired-files-stay",
        "an operator's request to delete expired files is answered and deletes none",
        [
            Change(
                "    @serves(RequestCode.CLEAN_UNUSED_TOPIC, CLUSTER_CHANGE)\n",
                "    @serves(RequestCode.CLEAN_UNUSED_TOPIC, CLUSTER_CHANGE)\n"
                "    @serves(RequestCode.DELETE_EXPIRED_COMMITLOG, CLUSTER_CHANGE)\n",
            ),
            Change(
                "    @serves(RequestCode.DELETE_EXPIRED_COMMITLOG, CLUSTER_CHANGE)\n    async def _delete_expired",
                "    async def _delete_expired",
            ),
        ],
        [f"{OPERATORS}::test_files_whose_time_is_over_are_deleted_when_an_operator_asks"],
    ),
    Bug(
        "deleted-group-keeps-its-offsets",
        "the offsets of a deleted group stay although cleanOffset asks for their removal",
        [Change("if header.clean_offset or header.remove_offset:", "if header.remove_offset:")],
        [f"{OPERATORS}::test_a_deleted_group_is_removed_and_its_offsets_if_that_is_asked_for"],
    ),
    Bug(
        "broker-s-own-topics-change",
        "operators change and delete the topics named after the broker and its cluster",
        [Change('if topic in (settings.broker_name, cluster, f"{cluster}{REPLY_SUFFIX}"):', "if topic == cluster:")],
        [f"{OPERATORS}::test_system_topics_are_named_and_stay_as_they_are"],
    ),
    # -- access control
    Bug(
        "signature-without-the-body",
        "a request's body can be changed on its way",
        [Change('encode(errors="replace") + body\n', 'encode(errors="replace")\n')],
        ["tests/rocketflow/remoting/test_signature.py"],
    ),
    Bug(
        "any-beginning-of-a-signature-counts",
        "a signature that is cut counts as the complete one",
        [
            Change(
                'return hmac.compare_digest(signature(content, secret_key).encode(), given.encode(errors="replace"))',
                "return signature(content, secret_key).startswith(given)",
            )
        ],
        ["tests/rocketflow/remoting/test_signature.py"],
    ),
    Bug(
        "batches-without-permission",
        "batches are taken without a permission for their topic, as RocketMQ 4 does",
        [
            Change(
                'RequestCode.SEND_BATCH_MESSAGE, client_row(topic_of(Action.PUB, field="b"))',
                "RequestCode.SEND_BATCH_MESSAGE, client_row()",
            )
        ],
        ["tests/rocketflow/access/test_permissions.py"],
    ),
    Bug(
        "retry-topics-of-other-groups",
        "a consumer reads the retry topics of all groups, as in RocketMQ",
        [
            Change(
                "        return (Need(Kind.GROUP, name.removeprefix(RETRY_PREFIX), frozenset(of_group)),)\n",
                "        return () if of_group else (Need(Kind.GROUP, name, actions),)\n",
            )
        ],
        ["tests/rocketflow/access/test_permissions.py"],
    ),
    Bug(
        "declared-and-not-served",
        "requests that a class of a folder declares are answered as unknown ones: the folder does not serve it",
        [Change("            GroupRequests(settings, tables, stats),\n", "")],
        ["tests/rocketflow/broker/test_requests.py"],
    ),
    Bug(
        "code-declared-twice",
        "a request code has two processors, and the one that is declared last gets its requests",
        [
            Change(
                "    @serves(RequestCode.UNLOCK_BATCH_MQ",
                "    @serves(RequestCode.LOCK_BATCH_MQ, client_row())\n    @serves(RequestCode.UNLOCK_BATCH_MQ",
            )
        ],
        ["tests/rocketflow/broker/test_requests.py"],
    ),
    Bug(
        "denial-of-a-prefix-hides-an-exception",
        "the shortest prefix decides instead of the longest",
        [Change("not self.is_prefix, len(self.name)", "not self.is_prefix, -len(self.name)")],
        ["tests/rocketflow/access/test_user_rules.py"],
    ),
    Bug(
        "policy-for-the-name-before-a-star",
        "a policy on salary*test is kept as one on salary",
        [Change('    if "*" in name:\n', '    name = name.partition("*")[0]\n    if "*" in name:\n')],
        ["tests/rocketflow/access/test_user_rules.py"],
    ),
    Bug(
        "subscription-reads-bounds",
        "an account that may only subscribe gets the bounds of queues",
        [
            Change(
                "RequestCode.GET_MIN_OFFSET, client_row(topic_of(Action.GET))",
                "RequestCode.GET_MIN_OFFSET, client_row(topic_of(Action.SUB, Action.GET))",
            )
        ],
        ["tests/rocketflow/access/test_permissions.py"],
    ),
    Bug(
        "captured-request-counts-again",
        "the number in the mark of a signed request is not compared with those before",
        [Change("        if -ahead >= NUMBERS or self._bits & bit:\n", "        if -ahead >= NUMBERS:\n")],
        ["tests/rocketflow/access/test_signatures.py"],
    ),
    Bug(
        "mark-moved-to-another-field",
        "a request whose mark was moved to another field counts as one of RocketMQ's clients",
        [
            Change(
                "if not given and not content.startswith(",
                "if not given and not b'?'.startswith(",
            )
        ],
        ["tests/rocketflow/access/test_signatures.py"],
    ),
    Bug(
        "exponent-is-an-integer",
        "the header of a request takes 1e5 for an integer",
        [Change("    if _UNUSUAL_IN_JSON.search(data):\n", "    if False:\n")],
        ["tests/rocketflow/remoting/test_readings.py"],
    ),
    Bug(
        "unchecked-name-is-a-super-user",
        "a request that needs no authentication gets the rights of the user that it names",
        [
            Change(
                '        name = "" if unknown is not None else command.fields[ACCESS_KEY]\n',
                '        name = command.fields.get(ACCESS_KEY, "")\n'
                '        name = name if name in self._tables.users else ""\n',
            )
        ],
        ["tests/rocketflow/access/test_user_rules.py"],
    ),
    Bug(
        "lost-files-are-no-rules",
        "if the files of accounts are removed while a server runs, it forgets its accounts",
        [Change("    if not paths or len(paths) > MAX_FILES:\n", "    if len(paths) > MAX_FILES:\n")],
        ["tests/rocketflow/access/test_plain_rules.py"],
    ),
    Bug(
        "operators-from-everywhere",
        "without accounts a broker takes requests of operators from every address",
        [
            Change(
                "row.audience in (Audience.CLIENT, Audience.BROKER) or (host",
                "row.audience is not Audience.JOB or (host",
            )
        ],
        [f"{ROWS}/network/test_access.py::test_without_accounts_operators_and_jobs_have_to_be_on_the_brokers_host"],
    ),
    Bug(
        "secrets-in-the-settings",
        "an operator reads the first user's password in the broker's settings",
        [Change("_HIDDEN if value and one.secret else", "_HIDDEN if value and one.key.startswith('tls.') else")],
        [f"{ROWS}/network/test_access.py::test_a_reply_shows_no_secret_of_the_settings"],
    ),
    Bug(
        "times-of-a-deleted-topic",
        "the times of a group's last messages are those of a topic that was deleted before",
        [Change("if changes != self._changes or len(self._kept) > MAX_KEPT:", "if len(self._kept) > MAX_KEPT:")],
        ["tests/rocketflow/broker/test_operator_requests.py"],
    ),
    Bug(
        "kept-half-message-of-another-queue",
        "a half message that was kept in memory is committed to queue 0 of its topic",
        [
            Change(
                "        return read_half(decode_stored(stored) if isinstance(stored, bytes) else stored)",
                "        return read_half(decode_stored(stored) if isinstance(stored, bytes) else stored)._replace("
                "real_queue_id=0)",
            )
        ],
        [f"{TRANSACTIONS}::test_a_kept_half_message_is_committed_as_the_one_of_the_log"],
    ),
    Bug(
        "place-with-the-right-of-another-topic",
        "a message of any topic is read, sent back or committed with the right of the topic that the request says",
        [
            Change(
                "            self.guard.check_needs(request, _needs(stored, self.guard.record_actions(request)))\n",
                "            pass\n",
            )
        ],
        [f"{ROWS}/network/test_access.py::test_a_message_that_a_request_names_by_its_place_counts_by_its_own_topic"],
    ),
    Bug(
        "internal-topics-for-everybody",
        "an account reads messages of a topic that is denied to it in the topics that the broker keeps them in",
        [Change("    if Action.SUB in actions and is_internal_topic(name):\n", "    if not name:\n")],
        ["tests/rocketflow/access/test_permissions.py", DENIED],
    ),
    Bug(
        "dead-letters-without-their-group",
        "an account reads the dead letters of a group that is denied to it",
        [Change("    if Action.SUB in actions and name.startswith(DLQ_PREFIX):\n", "    if not name:\n")],
        ["tests/rocketflow/access/test_permissions.py", DENIED],
    ),
    Bug(
        "retries-of-a-denied-topic",
        "an account reads messages of a topic that is denied to it as the retries of a group that it shares",
        [Change("if not self.has_rules or not topic.startswith((*_RETURNED, LMQ_PREFIX)):", "if topic:")],
        [DENIED],
    ),
    Bug(
        "any-member-consumes-directly",
        "an operator's request 309 shows a message to a client that may not read it",
        [Change("        if body and not self._access.may_read(members[0].sender, body):\n", "        if False:\n")],
        [DENIED],
    ),
    Bug(
        "record-without-an-owner",
        "a request gets stored messages, and its declaration names no right that their topic needs",
        [Change("topic_of(Action.GET, optional=True), record=READ)", "topic_of(optional=True))")],
        [
            f"{ROWS}/network/test_denied_records.py::test_every_request_that_is_declared_to_get_stored_messages_is_attacked"
        ],
    ),
    Bug(
        "questions-for-any-producer",
        "a client gets half messages of any topic if it names the group of their producers",
        [
            Change(
                "            lambda client: self._broker.access.may_publish(client.sender, question.topic),\n",
                "            lambda client: True,\n",
            )
        ],
        [f"{ROWS}/network/test_denied_records.py::{ASKED}"],
    ),
    Bug(
        "replies-to-any-client",
        "an account sends replies to clients of others that have asked nothing that it may read",
        [Change("        account = self._account_of(request, key)\n", "        account = None\n")],
        [f"{ROWS}/network/test_denied_records.py::{REPLIES}"],
    ),
    Bug(
        "client-id-of-another-account",
        "a client gets the replies to another account's client if it says that it has the same id",
        [Change("            return by_account.get(account)\n", "            pass\n")],
        ["tests/rocketflow/broker/test_tables.py", f"{ROWS}/network/test_denied_records.py::{REPLIES}"],
    ),
    Bug(
        "waiting-pull-keeps-its-right",
        "a pull that waits is answered after its right was taken away",
        [Change("            self._access.guard.check_again(pull.request)\n", "")],
        [f"{ROWS}/network/test_denied_records.py::test_a_pull_that_waits_is_answered_by_the_rights_of_its_end"],
    ),
    Bug(
        "ranges-of-a-disabled-group",
        "ranges are read by a group that may not consume, and of topics that are forbidden to it",
        [
            Change(
                "        self._checks.check(header.consumer_group, header.topic, header.queue_id, "
                "request.channel.address)\n        if request",
                "        if request",
            )
        ],
        ["tests/rocketflow/broker/test_range_pulls.py"],
    ),
    Bug(
        "commits-at-a-broker-that-takes-no-messages",
        "jobs commit messages to a broker whose permission allows no sends",
        [
            Change(
                "        check_writable(self._settings)\n        body = _decoded(request, bodies.CommitProgressBody)\n",
                "        body = _decoded(request, bodies.CommitProgressBody)\n",
            )
        ],
        ["tests/rocketflow/broker/test_range_pulls.py"],
    ),
    Bug(
        "forbidden-topic-is-read",
        "a group reads a topic that an operator has forbidden to it",
        [Change("if self._groups.is_forbidden(group_name, topic_name):", "if not topic_name:")],
        ["tests/rocketflow/broker/test_operator_requests.py"],
    ),
    Bug(
        "correction-by-the-last-group",
        "the offsets to correct another group by are those of the last group instead of the least",
        [Change("least[queue_id] = min(offset, least.get(queue_id, offset))", "least[queue_id] = offset")],
        ["tests/rocketflow/broker/test_operator_requests.py"],
    ),
    Bug(
        "every-day-has-24-hours",
        "the figures of a day are noted at one o'clock after a day of 23 hours",
        [
            Change(
                "(year, month, day + 1, 0, 0, 0, 0, 0, -1)) - now",
                "(year, month, day, 0, 0, 0, 0, 0, -1)) + 86_400 - now",
            )
        ],
        ["tests/rocketflow/broker/test_runtime_figures.py::test_midnight_is_awaited_for_the_hours_that_the_day_has"],
    ),
    # -- figures of groups
    Bug(
        "nothing-is-in-flight",
        "the pull offset of a queue is the consumer's: no message is ever in flight",
        [Change("pull_offset=max(offset, pulled.get(queue_id, 0))", "pull_offset=offset")],
        [f"{OPERATORS}::test_messages_that_are_pulled_and_not_consumed_are_in_flight"],
    ),
    Bug(
        "pull-offsets-outlive-their-topic",
        "a topic that was deleted and made again has messages in flight that it does not have",
        [Change("        topics.on_deleted.append(self.offsets.topic_deleted)\n", "")],
        [f"{OPERATORS}::test_messages_that_are_pulled_and_not_consumed_are_in_flight"],
    ),
    Bug(
        "list-of-topics-ignored",
        "the progress of a group has topics that the request does not list",
        [Change("topics = sorted(listed) if listed else self._con", "topics = self._con")],
        [f"{OPERATORS}::test_progress_is_that_of_the_topics_that_are_listed_or_that_a_group_reads"],
    ),
    Bug(
        "old-topics-lag-for-ever",
        "the progress of an online group has topics that it no longer subscribes to",
        [
            Change(
                "if group is None or not group.subscriptions:\n            return sorted",
                "if True:\n            return sorted",
            )
        ],
        [f"{OPERATORS}::test_progress_is_that_of_the_topics_that_are_listed_or_that_a_group_reads"],
    ),
    Bug(
        "listed-topics-are-not-checked",
        "an account reads a group's progress in topics that it may not read, if it lists them",
        [Change(', optional=True), topics_of("topicList", ";", Action.GET))', ", optional=True))")],
        ["tests/rocketflow/access/test_permissions.py"],
    ),
    Bug(
        "taken-in-again-after-a-rebuild",
        "the rate of timer messages counts those that are read again because the timer's files were rebuilt",
        [
            Change(
                "self._taken_to = progress.queue_offset if self._needs_rebuild else",
                "self._taken_to = 0 if self._needs_rebuild else",
            )
        ],
        [f"{STORE}/delivery/test_timer_delivery.py::test_messages_read_again_after_a_rebuild_are_not_taken_in_twice"],
    ),
    Bug(
        "pulled-messages-are-ready",
        "the metric of messages that a group has not pulled counts those that it has pulled",
        [Change("following = max(first, min(pulled.get(queue_id, 0), end))", "following = first")],
        ["tests/rocketflow/broker/test_message_times.py"],
    ),
    Bug(
        "system-topics-are-counted",
        "the broker's count without system topics has the messages of system topics",
        [Change("_SYSTEM_PUT_NUMS if is_system_topic(topic) else OWN_PUT_NUMS", "OWN_PUT_NUMS")],
        ["tests/rocketflow/broker/test_stats.py"],
    ),
    # -- servers for tests
    Bug(
        "servers-outlive-their-test",
        "the servers of a killed test process run on",
        [Change("    os.kill(os.getpid(), signal.SIGTERM)\n", "")],
        ["tests/rocketflow/testing/test_cluster.py::test_servers_end_with_a_killed_process"],
    ),
    Bug(
        "late-name-server",
        "a broker that starts before its NameServer registers half a minute later",
        [Change("period if self._was_taken else AGAIN_SECONDS", "period")],
        ["tests/rocketflow/broker/test_registration.py"],
    ),
    # -- producers
    Bug(
        "retry-at-the-broker-that-failed",
        "a failed send is repeated at the same broker",
        [Change("            last_broker = queue.broker_name\n", "")],
        [f"{PRODUCE}/test_attempts.py::test_other_brokers_are_tried_after_codes_that_rocketmq_retries"],
    ),
    Bug(
        "busy-broker-ends-a-send",
        "a send to a broker that is busy has one attempt",
        [Change("        ResponseCode.SYSTEM_BUSY,\n", "")],
        [f"{PRODUCE}/test_attempts.py"],
    ),
    Bug(
        "lost-answer-means-not-stored",
        "a send whose connection ended before the answer says that nothing was stored",
        [
            Change(
                "raise UnreachableError(address, str(error), sent=True) from None",
                "raise UnreachableError(address, str(error), sent=False) from None",
            )
        ],
        [
            f"{PRODUCE}/test_lost_connections.py::test_connections_cut_at_random_bytes_lose_nothing_that_was_acknowledged"
        ],
    ),
    Bug(
        "cancelled-send-keeps-its-room",
        "a send that is cancelled while it waits for room takes the room for ever",
        [
            Change(
                "                self.release(count, size)  # its turn came at the same moment\n",
                "                pass\n",
            )
        ],
        [f"{PRODUCE}/test_in_flight.py"],
    ),
    Bug(
        "batch-results-are-the-first",
        "each message of an automatic batch gets the offset of the first",
        [Change("queue_offset=result.queue_offset + number)", "queue_offset=result.queue_offset)")],
        [f"{PRODUCE}/test_auto_batches.py"],
    ),
    Bug(
        "failed-local-transaction-commits",
        "a message is committed although its local transaction raised an error",
        [Change("        return TransactionState.UNKNOWN, error\n", "        return TransactionState.COMMIT, error\n")],
        [f"{PRODUCE}/test_transactions.py::test_a_broker_asks_for_states_that_are_unknown"],
    ),
    Bug(
        "check-of-another-group",
        "a producer answers for the transactions of another group",
        [Change("        if group != self.options.group:\n", "        if group is None:\n")],
        [f"{PRODUCE}/test_transactions.py::test_a_producer_ignores_a_check_of_another_group"],
    ),
    Bug(
        "one-way-requests-are-not-signed",
        "requests that want no answer are not signed: brokers with accounts drop them",
        [
            Change(
                "one_way=True)\n        self._run_hooks(command)\n",
                "one_way=True)\n",
            )
        ],
        [f"{PRODUCE}/test_accounts.py"],
    ),
    Bug(
        "unsound-body",
        "a pull of many messages returns a record whose body is damaged",
        [Change("        bodies == body_crcs\n        and property_sizes", "        property_sizes")],
        [f"{STORE}/reading/test_sound_records.py"],
    ),
    Bug(
        "kernel-unsound-body",
        "the kernel takes a record whose body is damaged for sound",
        [Change("if bodies and crc32_of(parts.record", "if False and crc32_of(parts.record")],
        [f"{STORE}/reading/test_sound_records.py"],
    ),
    Bug(
        "kernel-unsound-record",
        "the kernel compares only nine digits of a record's CRC",
        [Change("if value == <int64_t>actual", "if value % 1000000000 == <int64_t>actual % 1000000000")],
        [f"{STORE}/reading/test_sound_records.py"],
    ),
    Bug(
        "kernel-damaged-crc-is-none",
        "the kernel takes a damaged CRC of a record for another property",
        [Change("        if ends_like_crc(parts.record + parts.size):\n            return -1\n", "")],
        [f"{STORE}/reading/test_sound_records.py"],
    ),
    Bug(
        "kernel-gap-stays",
        "records of a pull are moved one byte too far when the gaps between them are closed",
        [Change("memmove(raw + total, raw + start, size)", "memmove(raw + total + 1, raw + start, size)")],
        [f"{STORE}/reading/test_sound_records.py"],
    ),
    Bug(
        "kernel-takes-none-for-zero",
        "the kernel stores a message whose numbers are None, which is refused without it",
        [Change("    return type(number) is int and not number\n", "    return not number\n")],
        [f"{STORE}/kernel/test_puts.py::test_requests_have_the_same_results_and_files_by_kernel_and_python"],
    ),
    Bug(
        "kernel-message-with-the-records-crc",
        "a message that the kernel decodes has the CRC of its record among its properties",
        [
            Change(
                "    if size >= CRC_PROPERTY_SIZE and ends_like_crc(at + parts.size):\n        size -=",
                "    if False:\n        size -=",
            )
        ],
        [f"{STORE}/kernel/test_stored_parts.py"],
    ),
    Bug(
        "kernel-message-of-another-host",
        "the kernel takes the store host of a record for IPv4 if its born host is",
        [
            Change(
                "octets_from(at + 64 + parts.born_more, 8 + parts.hosts_more - parts.born_more)",
                "octets_from(at + 64 + parts.born_more, 8 + parts.born_more)",
            )
        ],
        [f"{STORE}/kernel/test_stored_parts.py"],
    ),
    Bug(
        "kernel-record-of-another-place",
        "the kernel takes a record at another place for the unit's",
        [Change("            or <int64_t>get64(record + 28) != place\n", "")],
        [f"{STORE}/reading/test_sound_records.py"],
    ),
    Bug(
        "kernel-span-past-the-file",
        "the kernel reads the records of a pull past the end of their file",
        [Change(" or at > room or size > room - at:", " or at > room:")],
        [f"{STORE}/reading/test_sound_records.py"],
    ),
    Bug(
        "only-the-first-needs-a-record-crc",
        "of the records of a pull only the first has to have a CRC of itself",
        [Change("rows.place(0), rows.place(last)", "rows.place(0), rows.place(0)")],
        [f"{STORE}/reading/test_sound_records.py"],
        with_kernel=True,
    ),
    Bug(
        "kernel-takes-refused-flags",
        "the kernel stores a send with the flags of a half message as it is",
        [
            Change(
                "if sys_flag & (LEFT_BATCH_FLAGS if is_batch else LEFT_FLAGS) or",
                "if is_batch and sys_flag & LEFT_BATCH_FLAGS or",
            )
        ],
        [f"{TOGETHER}::test_each_unusual_send_is_left_over"],
    ),
    Bug(
        "kernel-takes-batches",
        "the kernel stores a send with a batch in it as one message",
        [Change("and header.texts[BATCH_FIELD].size == 4:", "and False:")],
        [f"{TOGETHER}::test_each_unusual_send_is_left_over"],
    ),
    Bug(
        "kernel-takes-what-a-broker-sets",
        "the kernel keeps a property of a client that the broker sets",
        [Change('        or is_text(name, size, b"CLUSTER", 7)\n', "")],
        [f"{TOGETHER}::test_each_property_that_a_broker_acts_on_is_left_over"],
    ),
    Bug(
        "kernel-takes-delays",
        "the kernel stores a message with a delay level at once",
        [Change("            one.level = <int32_t> level\n", "            one.level = 0\n")],
        [f"{TOGETHER}::test_delayed_messages_wait_under_their_level"],
    ),
    Bug(
        "kernel-takes-half-messages",
        "the kernel shows half messages to consumers",
        [
            Change(
                '        or ends_with(name, size, b"TRAN_MSG", 8)               # a broker looks for the name\'s end\n',
                "",
            )
        ],
        [f"{TOGETHER}::test_each_property_that_a_broker_acts_on_is_left_over"],
    ),
    Bug(
        "kernel-takes-a-second-key",
        "the kernel takes a message with two UNIQ_KEYs",
        [Change("            if fact.size or stop == middle + 1:", "            if stop == middle + 1:")],
        [f"{TOGETHER}::test_sends_that_the_kernel_takes_are_stored_and_answered_as_one_by_one"],
    ),
    Bug(
        "kernel-born-host-of-any-size",
        "the kernel marks no record whose born host is an IPv6 address",
        [Change("(BORN_V6 if born_size == 20 else 0) |", "0 |")],
        [f"{TOGETHER}::test_sends_that_the_kernel_takes_are_stored_and_answered_as_one_by_one"],
    ),
    Bug(
        "kernel-store-time-at-wrong-place",
        "the kernel puts the store time where an IPv4 host ends",
        [Change("return 20 if get32(record + 36) & BORN_V6 else 8", "return 8")],
        [f"{TOGETHER}::test_sends_that_the_kernel_takes_are_stored_and_answered_as_one_by_one"],
    ),
    Bug(
        "kernel-sends-without-crc",
        "the kernel does not write the CRC of a record that was sent",
        [
            Change(
                "                    if self.maker.property_crc:\n                        put_record_crc(self.arena",
                "                    if False:\n                        put_record_crc(self.arena",
            )
        ],
        [f"{TOGETHER}::test_sends_that_the_kernel_takes_are_stored_and_answered_as_one_by_one"],
    ),
    Bug(
        "kernel-answers-another-queue",
        "the kernel answers with the first queue of a read",
        [Change("parts[1]), request.queue)", "parts[1]), self.slots[0].queue)")],
        [f"{TOGETHER}::test_batches_of_one_read_are_taken_together_and_go_on_in_the_next_file"],
    ),
    Bug(
        "kernel-answers-half-queue",
        "the kernel answers a half message with the queue of half messages",
        [Change("parts[1]), request.queue)", "parts[1]), self.slots[self.ones[request.first].slot].queue)")],
        [f"{TOGETHER}::test_half_messages_are_taken_and_kept_for_their_ends"],
    ),
    Bug(
        "kernel-end-of-an-answer",
        "the kernel takes an answer with the code of an end of a transaction",
        [Change("    if header.flag not in (0, ONE_WAY_FLAG) or header.fields & END", "    if header.fields & END")],
        [f"{ENDS}::test_each_unusual_end_is_decided_as_without_the_kernel"],
    ),
    Bug(
        "kernel-end-without-a-needed-field",
        "the kernel ends a transaction whose request lacks a field",
        [Change(" or header.fields & END_NEEDED != END_NEEDED:", ":")],
        [f"{ENDS}::test_each_unusual_end_is_decided_as_without_the_kernel"],
    ),
    Bug(
        "kernel-end-by-another-group",
        "the kernel lets any group whose name is as long end a transaction",
        [
            Change(
                "    if memcmp(values[GROUP_NAME].at, ending.group.at, <size_t> ending.group.size) != 0:",
                "    if False:",
            )
        ],
        [f"{ENDS}::test_each_unusual_end_is_decided_as_without_the_kernel"],
    ),
    Bug(
        "kernel-end-at-another-place",
        "the kernel ends a half message whose place in the log is not the request's",
        [Change(" or <int64_t> get64(half + 28) != ending.log_offset:", ":")],
        [f"{ENDS}::test_each_unusual_end_is_decided_as_without_the_kernel"],
    ),
    Bug(
        "kernel-end-after-its-immunity-time",
        "the kernel ends a half message with an immunity time of its own, however old",
        [
            Change(
                "    if values[UNIQ_NAME].at == NULL or values[IMMUNITY_NAME].at != NULL:",
                "    if values[UNIQ_NAME].at == NULL:",
            )
        ],
        [f"{ENDS}::test_each_unusual_half_message_is_decided_as_without_the_kernel"],
    ),
    Bug(
        "kernel-commit-without-its-flag",
        "the kernel stores a committed message without the flag of a commit",
        [Change("parts.sys_flag & ~<uint32_t> TRANSACTION_FLAGS | COMMIT_FLAG)", "parts.sys_flag)")],
        [f"{ENDS}::test_commits_and_rollbacks_of_one_read_are_stored_as_one_by_one"],
    ),
    Bug(
        "kernel-commit-without-its-half-message",
        "the kernel stores a committed message that does not say where its half message is",
        [Change("    put64(record + PREPARED_AT + parts.hosts_more, <uint64_t> log_offset)\n", "")],
        [f"{ENDS}::test_commits_and_rollbacks_of_one_read_are_stored_as_one_by_one"],
    ),
    Bug(
        "kernel-commit-without-its-queue",
        "the kernel stores a committed message with the queue of its half message",
        [Change("    put32(record + 12, <uint32_t> commits.slots[slot].queue)\n", "")],
        [f"{ENDS}::test_commits_and_rollbacks_of_one_read_are_stored_as_one_by_one"],
    ),
    Bug(
        "kernel-commits-more-than-a-mark",
        "the kernel commits more bytes than one op mark may",
        [
            Change(
                "    if commits.count and commits.body_size + parts.body_size > maker.max_commit_bytes:",
                "    if False:",
            )
        ],
        [f"{ENDS}::test_one_op_mark_commits_no_more_than_a_megabyte"],
    ),
    Bug(
        "kernel-ends-more-than-a-mark",
        "the kernel ends more half messages than an op mark has room for",
        [Change("    if records.ending_count >= records.maker.max_endings:", "    if False:")],
        [f"{ENDS}::test_op_marks_have_their_limits"],
    ),
    Bug(
        "kernel-end-of-a-copied-half-message",
        "an end that names a half message which was copied since ends it, and leaves its copy",
        [
            Change(
                "self._recent.take_records(offsets) if self._checks.are_open(offsets) else none",
                "self._recent.take_records(offsets)",
            )
        ],
        [f"{ENDS}::test_end_of_a_half_message_that_was_asked_about_ends_its_copy"],
        with_kernel=True,
    ),
    Bug(
        "kernel-commit-to-a-changed-topic",
        "the kernel commits to a topic whose settings have changed",
        [Change("if commits is not None and not is_as_taught(commits.named_topics):", "if False:")],
        [f"{ENDS}::test_end_of_a_half_message_whose_topic_has_changed_is_left_over"],
        with_kernel=True,
    ),
    Bug(
        "ends-together-without-a-hold",
        "a half message is decided twice by ends of one read",
        [
            Change(
                "arrived.requests(asking)\n        self._decisions.hold(*offsets)\n",
                "arrived.requests(asking)\n",
            )
        ],
        [f"{ENDS}::test_half_message_is_decided_once"],
        with_kernel=True,
    ),
    Bug(
        "ends-together-are-held-on",
        "what waits for an end that the kernel took is not told of it",
        [
            Change(
                "            self._decisions.release(*offsets)\n\n        self._puts.add(End(offsets",
                "\n        self._puts.add(End(offsets",
            )
        ],
        [f"{ENDS}::test_ends_that_the_store_refuses_can_be_repeated"],
        with_kernel=True,
    ),
    Bug(
        "ends-together-are-not-remembered",
        "an end that the kernel took is refused if it is repeated",
        [
            Change(
                "                self._decisions.end(*offsets, is_commit=is_commit)\n                now_ms",
                "                now_ms",
            )
        ],
        [f"{ENDS}::test_half_message_is_decided_once"],
        with_kernel=True,
    ),
    Bug(
        "refused-sends-with-the-ends-between-them",
        "sends of a read are refused in the place of ends that came between them",
        [
            Change(
                "        if not self.ending_count:\n            return self.frames()\n",
                "        return self.frames()\n",
            )
        ],
        [f"{ENDS}::test_ends_that_the_store_refuses_can_be_repeated"],
    ),
    Bug(
        "kernel-answers-in-json",
        "the kernel answers a request with a binary header in JSON",
        [Change("<int32_t> header.opaque, kind >> 24 == 1", "<int32_t> header.opaque, 0")],
        [f"{TOGETHER}::test_requests_are_answered_in_the_header_type_of_each"],
    ),
    Bug(
        "kernel-binary-without-utf-8",
        "the kernel takes a binary header with a value that is no UTF-8",
        [Change(" or not (is_ascii(at, size) or is_utf8(at, size)):", ":")],
        [f"{TOGETHER}::test_each_unusual_send_is_left_over"],
    ),
    Bug(
        "kernel-binary-size-unchecked",
        "the kernel takes a binary header whose fields have another size than it says",
        [Change("    if get32(at + BINARY_SIZE) != <uint64_t> (end - at - BINARY_FIELDS):\n        return 0\n", "")],
        [f"{TOGETHER}::test_each_unusual_send_is_left_over"],
    ),
    Bug(
        "kernel-sends-without-rights",
        "the kernel takes sends without asking the broker's accounts",
        [
            Change(
                "            if not self._guard.allows_signed(Command(records.code, given), content, host):",
                "            if False:",
            )
        ],
        [f"{SIGNED}::test_forged_send_among_others_is_refused_alone"],
        with_kernel=True,
    ),
    Bug(
        "kernel-signed-without-body",
        "what is signed of a send that the kernel takes lacks its body",
        [Change("    at = append_bytes(at, body, body_size)\n    return content", "    return content")],
        [f"{SIGNED}::test_signed_sends_of_every_kind_are_taken"],
    ),
    Bug(
        "kernel-signed-in-another-order",
        "the kernel puts the values of a signed request 10 in the order of its fields",
        [Change("&LONG_SIGNED[0] if header.code == SEND else ", "")],
        [f"{SIGNED}::test_signed_sends_of_every_kind_are_taken"],
    ),
    Bug(
        "kernel-signed-with-a-moved-mark",
        "a mark in another field of a send that the kernel takes is not noticed",
        [
            Change(
                "return self._seen.take(command, content) if is_right else otherwise",
                "return None if is_right else otherwise",
            )
        ],
        [f"{SIGNED}::test_marked_send_counts_once_and_its_mark_cannot_be_moved"],
        with_kernel=True,
    ),
    Bug(
        "kernel-half-for-readers",
        "the kernel stores a half message where readers see it",
        [Change("            facts.topic, facts.queue = HALF_TOPIC, 0\n", "")],
        [f"{TOGETHER}::test_half_messages_are_taken_and_kept_for_their_ends"],
    ),
    Bug(
        "kernel-half-with-its-flag",
        "the kernel stores a half message with the flag of its request",
        [Change("            sys_flag &= ~<int64_t> TRANSACTION_FLAGS\n", "")],
        [f"{TOGETHER}::test_half_messages_are_taken_and_kept_for_their_ends"],
    ),
    Bug(
        "kernel-half-by-its-flag-alone",
        "the kernel takes a message with the flag of a half message for one without TRAN_MSG",
        [Change("    return one.is_half == is_half", "    return 1")],
        [f"{TOGETHER}::test_each_unusual_half_message_is_left_over"],
    ),
    Bug(
        "kernel-half-with-properties-of-the-broker",
        "the kernel keeps properties of a half message that only a broker may set",
        [Change(" or is_half and is_of_half(at, name_size):", ":")],
        [f"{TOGETHER}::test_each_unusual_half_message_is_left_over"],
    ),
    Bug(
        "kernel-half-without-its-queue",
        "a half message that the kernel takes is committed to the queue of half messages",
        [Change('b"\\x02REAL_QID\\x01", 10), facts.named_queue)', 'b"\\x02REAL_QID\\x01", 10), facts.queue)')],
        [f"{TOGETHER}::test_half_messages_are_taken_and_kept_for_their_ends"],
    ),
    Bug(
        "kernel-delay-under-the-next-level",
        "the kernel stores a delayed message under the level after its own",
        [
            Change(
                "facts.topic, facts.queue = DELAY_TOPIC, one.level - 1",
                "facts.topic, facts.queue = DELAY_TOPIC, one.level",
            )
        ],
        [f"{TOGETHER}::test_delayed_messages_wait_under_their_level"],
    ),
    Bug(
        "kernel-delay-without-its-time",
        "the unit of a delayed message has the hash of its tags in place of the time at which it is due",
        [
            Change(
                "            if one.level:\n                one.tags_code",
                "            if one.level < 0:\n                one.tags_code",
            )
        ],
        [f"{TOGETHER}::test_delayed_messages_wait_under_their_level"],
    ),
    Bug(
        "kernel-delay-for-the-last-level-and-above",
        "the kernel takes a delay level after the last one",
        [
            Change(
                "decimal(middle + 1, stop - middle - 1, 1, most_levels, &level)",
                "decimal(middle + 1, stop - middle - 1, 1, most_levels and most_levels + 1, &level)",
            )
        ],
        [f"{TOGETHER}::test_each_unusual_delayed_message_is_left_over"],
    ),
    Bug(
        "kernel-delay-of-level-zero",
        "the kernel takes a message with delay level 0",
        [
            Change(
                "decimal(middle + 1, stop - middle - 1, 1, most_levels, &level)",
                "decimal(middle + 1, stop - middle - 1, 0, most_levels, &level)",
            )
        ],
        [f"{TOGETHER}::test_each_unusual_delayed_message_is_left_over"],
    ),
    Bug(
        "kernel-delay-with-two-of-a-name",
        "the kernel keeps both of two properties of a delayed message",
        [
            Change(
                "memcmp(other, at, middle + 1 - at) == 0:\n                return 0",
                "memcmp(other, at, middle + 1 - at) == 0:\n                break",
            )
        ],
        [f"{TOGETHER}::test_each_unusual_delayed_message_is_left_over"],
    ),
    Bug(
        "kernel-delay-with-an-empty-value",
        "the kernel keeps a property without a value of a delayed message",
        [
            Change(
                "        if stop == middle + 1:\n            return 0\n        if is_text",
                "        if stop < middle:\n            return 0\n        if is_text",
            )
        ],
        [f"{TOGETHER}::test_each_unusual_delayed_message_is_left_over"],
    ),
    Bug(
        "kernel-delay-with-a-place-of-the-client",
        "the kernel keeps the real topic that a client gave a delayed message",
        [Change('        if is_text(at, middle - at, b"REAL_TOPIC", 10) or', "        if")],
        [f"{TOGETHER}::test_each_unusual_delayed_message_is_left_over"],
    ),
    Bug(
        "kernel-delay-in-a-transaction",
        "the kernel delays a half message",
        [Change("facts.may_delay = not is_batch and not facts.is_half", "facts.may_delay = not is_batch")],
        [f"{TOGETHER}::test_each_unusual_half_message_is_left_over"],
    ),
    Bug(
        "kernel-delay-in-a-batch",
        "the kernel delays messages of a batch",
        [Change("facts.may_delay = not is_batch and not", "facts.may_delay = not")],
        [f"{TOGETHER}::test_each_unusual_delayed_message_is_left_over"],
    ),
    Bug(
        "kernel-delay-counted-elsewhere",
        "a delayed message that the kernel takes counts for the topic under which it waits",
        [
            Change(
                "return HALF_TOPIC if self.ones[request.first].is_half else request.topic",
                "return self.slots[self.ones[request.first].slot].topic",
            )
        ],
        [f"{TOGETHER}::test_delayed_messages_wait_under_their_level"],
    ),
    Bug(
        "kernel-delay-with-more-bytes",
        "what a delayed message gets from the broker counts as sent",
        [Change("            request.counted -= facts.waiting_size", "            request.counted -= 0")],
        [f"{TOGETHER}::test_delayed_messages_wait_under_their_level"],
    ),
    Bug(
        "kernel-delay-of-no-type",
        "delayed messages that the kernel takes are counted as usual ones",
        [Change("            one.kind = DELAY_KIND", "            one.kind = NORMAL_KIND")],
        [f"{TOGETHER}::test_delayed_messages_wait_under_their_level"],
    ),
    Bug(
        "kernel-delay-of-ordered-messages",
        "ordered messages with a delay are counted as delayed ones",
        [Change("        if one.kind == NORMAL_KIND:\n", "        if one.kind != DELAY_KIND:\n")],
        [f"{TOGETHER}::test_delayed_messages_wait_under_their_level"],
    ),
    Bug(
        "kernel-answers-one-way-sends",
        "the kernel answers a send that wants no answer",
        [
            Change(
                "            if self.requests[i].is_one_way:\n                continue",
                "            if self.requests[i].is_one_way > 1:\n                continue",
            )
        ],
        [f"{TOGETHER}::test_sends_that_want_no_answer_get_none"],
    ),
    Bug(
        "kernel-one-way-sends-count-as-answered",
        "sends without an answer that the kernel takes are counted as answered",
        [Change("        records.one_way_count += request.is_one_way", "        records.one_way_count += 0")],
        [f"{TOGETHER}::test_sends_that_want_no_answer_get_none"],
    ),
    Bug(
        "kernel-takes-answers-for-sends",
        "the kernel takes a request with the flag of an answer",
        [Change("header.flag not in (0, ONE_WAY_FLAG) or body_size", "header.flag < 0 or body_size")],
        [f"{TOGETHER}::test_each_unusual_send_is_left_over"],
    ),
    Bug(
        "kernel-half-like-a-crc",
        "the kernel takes a half message whose properties end like a CRC of its record",
        [
            Change(
                "            if not self.property_crc and ends_like_crc(at + property_size):\n"
                "                return 0\n",
                "",
            )
        ],
        [f"{TOGETHER}::test_half_message_whose_key_ends_like_a_crc_is_left_over"],
    ),
    Bug(
        "halves-taken-together-are-not-kept",
        "half messages that are taken together are neither kept nor counted",
        [Change("                    self._sends.note_halves(*records.halves())\n", "                    pass\n")],
        [f"{TOGETHER}::test_half_messages_are_taken_and_kept_for_their_ends"],
        with_kernel=True,
    ),
    Bug(
        "half-messages-taken-though-rejected",
        "a broker that rejects half messages takes them together",
        [Change("                self._sends.check_halves()\n", "                pass\n")],
        [f"{TOGETHER}::test_half_messages_are_refused_one_by_one_if_the_broker_rejects_them"],
        with_kernel=True,
    ),
    Bug(
        "halves-teach-no-queue",
        "a queue that has only half messages is never taught to the kernel",
        [Change("                    self._on_stored(topic, queue_id)\n", "                    pass\n")],
        [f"{TOGETHER}::test_half_messages_are_taken_and_kept_for_their_ends"],
        with_kernel=True,
    ),
    Bug(
        "kernel-forgets-keys",
        "the kernel names only the first of several KEYS in the index",
        [Change("                    start = at + 1\n", "                    start = one.keys.size\n")],
        [f"{TOGETHER}::test_each_unusual_send_is_left_over"],
    ),
    Bug(
        "kernel-places-over-the-end",
        "the kernel places a record where the last blank one of a file has to be",
        [
            Change(
                "while number < self.request_count and self.requests[number].size <= room_to - at:",
                "while number < self.request_count:",
            )
        ],
        [f"{TOGETHER}::test_records_of_one_read_go_on_in_the_next_file"],
    ),
    Bug(
        "kernel-takes-bad-numbers",
        "the kernel takes numbers that are no int32",
        [Change("    return least <= found <= most\n", "    return 1\n")],
        [f"{TOGETHER}::test_each_unusual_send_is_left_over"],
    ),
    Bug(
        "kernel-takes-bad-utf8",
        "the kernel stores properties that are no UTF-8",
        [Change("    return not wide or is_utf8(begin, end - begin)\n", "    return 1\n")],
        [f"{TOGETHER}::test_mutated_frames_are_answered_as_without_the_kernel"],
    ),
    Bug(
        "kernel-drops-properties-of-a-batch",
        "the messages of a batch do not get the batch's keys",
        [Change("        if not has_only_ids(records.arena + begin, size):\n            return 0\n", "")],
        [f"{TOGETHER}::test_each_unusual_batch_is_stored_and_answered_as_without_the_kernel"],
    ),
    Bug(
        "kernel-takes-flags-of-a-batch",
        "the kernel stores the messages of a batch with the flags of half messages",
        [Change("(LEFT_BATCH_FLAGS if is_batch else LEFT_FLAGS)", "LEFT_FLAGS")],
        [f"{TOGETHER}::test_each_unusual_batch_is_stored_and_answered_as_without_the_kernel"],
    ),
    Bug(
        "kernel-takes-bad-utf8-in-a-batch",
        "the kernel stores properties of a batch's messages that are no UTF-8",
        [
            Change(
                "            if not size or not is_utf8(properties.at, properties.size):\n",
                "            if not size:\n",
            )
        ],
        [f"{TOGETHER}::test_each_unusual_batch_is_stored_and_answered_as_without_the_kernel"],
    ),
    Bug(
        "kernel-stores-messages-without-a-key",
        "the kernel stores a message without UNIQ_KEY as it is",
        [Change("if not one.uniq.size or not is_ascii", "if not is_ascii")],
        [f"{TOGETHER}::test_each_unusual_batch_is_stored_and_answered_as_without_the_kernel"],
    ),
    Bug(
        "kernel-answers-with-an-empty-key",
        "the answer to a batch without a key has an empty transaction id",
        [
            Change(
                "        if request.uniq.size:\n            at = put_part(at, parts[3])",
                "        if request.uniq.size >= 0:\n            at = put_part(at, parts[3])",
            )
        ],
        [f"{TOGETHER}::test_batches_of_older_clients_have_no_key_of_their_own"],
    ),
    Bug(
        "kernel-ends-without-their-answer",
        "clients that want to know how a transaction ended get no answer if the kernel takes the end",
        [Change("        if not ending.is_one_way:\n", "        if ending.is_one_way > 1:\n")],
        ["tests/rocketflow/broker/test_ends_together.py::test_ends_of_clients_that_want_an_answer_get_it"],
    ),
    Bug(
        "answers-of-refused-ends-say-nothing",
        "the answer to an end that is taken together and refused does not say why",
        [Change("                request.reply(code, remark=remark)\n", "                request.reply(code)\n")],
        ["tests/rocketflow/broker/test_ends_together.py::test_ends_of_clients_that_want_an_answer_get_it"],
        with_kernel=True,
    ),
    Bug(
        "kernel-takes-large-properties-of-a-batch",
        "the kernel gives the messages of a batch more properties than a batch may have",
        [Change("                own, NEW_ID,\n", "                own, 0,\n")],
        [f"{TOGETHER}::test_each_unusual_batch_is_stored_and_answered_as_without_the_kernel"],
    ),
    Bug(
        "kernel-answers-a-batch-with-one-id",
        "the kernel answers a batch with the id of its first message only",
        [
            Change(
                "        for row in range(request.first, request.first + request.count):\n"
                "            at = put_part(at, self.maker.id_prefix)",
                "        for row in range(request.first, request.first + 1):\n"
                "            at = put_part(at, self.maker.id_prefix)",
            )
        ],
        [f"{TOGETHER}::test_batches_of_one_read_are_taken_together_and_go_on_in_the_next_file"],
    ),
    Bug(
        "messages-of-a-batch-counted-as-requests",
        "a batch that the kernel takes counts as many requests",
        [Change("                found[one][2] += 1\n", "                found[one][2] += request.count\n")],
        [f"{TOGETHER}::test_batches_of_one_read_are_taken_together_and_go_on_in_the_next_file"],
    ),
    Bug(
        "kernel-takes-batch-queues",
        "the kernel takes sends to a BatchCQ topic",
        [
            Change(
                "        return self.request(number).size\n",
                "        return self.ones[self.request(number).first].size\n",
            ),
            Change(
                "self.request_count and self.requests[number].size <= room_to - at:",
                "self.request_count and self.ones[self.requests[number].first].size <= room_to - at:",
            ),
        ],
        [f"{TOGETHER}::test_topic_with_attributes_is_left_over_if_they_concern_sends"],
        with_kernel=True,
    ),
    Bug(
        "kernel-takes-compacted-topics",
        "the kernel takes sends without keys to a compacted topic",
        [Change("config.is_batch_cq or is_compacted(config)", "config.is_batch_cq")],
        [f"{TOGETHER}::test_topic_with_attributes_is_left_over_if_they_concern_sends"],
        with_kernel=True,
    ),
    Bug(
        "kernel-takes-more-than-a-run",
        "the kernel takes more sends than one append may have",
        [Change("while taken and records.count < maker.max_run and", "while taken and")],
        [f"{TOGETHER}::test_no_run_has_more_sends_than_an_append"],
    ),
    Bug(
        "kernel-takes-more-bytes-than-a-run",
        "the kernel takes more bytes of sends than one append may have",
        [Change(" and records.body_size < maker.max_run_bytes:", ":")],
        [f"{TOGETHER}::test_no_run_has_more_sends_than_an_append"],
    ),
    Bug(
        "sends-together-without-limit",
        "sends that are taken together are not refused while too many wait",
        [Change("if not self._gatherer.has_room or not self._is_as", "if not self._is_as")],
        [f"{TOGETHER}::test_no_more_sends_are_taken_together_than_may_wait"],
        with_kernel=True,
    ),
    Bug(
        "ordered-sends-counted-as-normal",
        "the metrics count ordered messages that are taken together as normal ones",
        [Change("            one.kind = FIFO_KIND\n", "            pass\n")],
        [f"{TOGETHER}::test_each_property_that_a_broker_acts_on_is_left_over"],
    ),
    Bug(
        "sizes-of-sends-counted-too-high",
        "the metrics count a message of exactly a bound as a larger one",
        [Change("while place < last and size > bounds[place]:", "while place < last and size >= bounds[place]:")],
        [f"{TOGETHER}::test_sizes_of_sends_are_counted_by_their_bounds"],
    ),
    Bug(
        "latency-of-sends-together-counted-once",
        "the metrics count the answers to sends that are taken together as one",
        [
            Change(
                "self.latency.record(Rpc(code, result, False, how), seconds, count)",
                "self.latency.record(Rpc(code, result, False, how), seconds)",
            )
        ],
        [f"{TOGETHER}::test_sends_that_the_kernel_takes_are_stored_and_answered_as_one_by_one"],
        with_kernel=True,
    ),
    Bug(
        "sends-of-a-changed-topic",
        "sends go to a queue that its topic has no more",
        [
            Change(
                " or not self._is_as_taught(records.named_topics):",
                ":",
            )
        ],
        [f"{TOGETHER}::test_queue_is_taken_once_it_has_a_message_and_until_its_topic_changes"],
        with_kernel=True,
    ),
    Bug(
        "sends-counted-for-the-first-topic",
        "all messages of a read are counted for the topic of the first one",
        [Change("while one < count and numbers[one] != topic:", "while one < count and not count:")],
        [f"{TOGETHER}::test_sends_that_the_kernel_takes_are_stored_and_answered_as_one_by_one"],
        with_kernel=True,
    ),
    Bug(
        "pull-not-woken-by-a-send",
        "one pull that waits is not answered when a send of the event loop brings its message",
        [Change("        elif self._held:\n", "        elif len(self._held) > 1:\n")],
        ["tests/rocketflow/broker/test_held_pulls.py"],
    ),
    Bug(
        "sends-without-permission",
        "sends that are taken together need no permission of the broker",
        [Change("            self._sends.check_writable()\n", "            pass\n")],
        [f"{TOGETHER}::test_sends_are_refused_by_the_permission_of_the_broker"],
        with_kernel=True,
    ),
    Bug(
        "late-sends-are-answered-as-synced",
        "sends that are taken together are answered with success although the sync was late",
        [
            Change(
                "            if result.status is PutMessageStatus.PUT_OK:\n                unanswered",
                "            if result.stored:\n                unanswered",
            )
        ],
        [f"{TOGETHER}::test_each_of_several_sends_is_answered_if_they_are_late_or_refused"],
        with_kernel=True,
    ),
    Bug(
        "unsound-record",
        "a pull of many messages returns a record whose own CRC is wrong",
        [Change("return expected == digits\n", "return len(expected) == len(digits)\n")],
        [f"{STORE}/reading/test_sound_records.py"],
    ),
    Bug(
        "signature-before-hooks",
        "a request is signed before hooks add fields to it: brokers refuse the signature",
        [Change("(*self.hooks, *signing_hooks(self.credentials))", "(*signing_hooks(self.credentials), *self.hooks)")],
        ["tests/rocketflow/client/test_hooks.py"],
    ),
    Bug(
        "pauses-end-early",
        "a slow broker is used again before its pause is over",
        [
            Change(
                "        if pause_ms:\n            available_from = max(available_from, now_ms + pause_ms)",
                "        available_from = now_ms + pause_ms",
            )
        ],
        [f"{PRODUCE}/test_faults.py"],
    ),
    Bug(
        "permission-is-asked-for-again",
        "a send that is refused for lack of permission is repeated at other brokers",
        [
            Change(
                "        ResponseCode.NO_BUYER_ID,\n",
                "        ResponseCode.NO_BUYER_ID,\n        ResponseCode.NO_PERMISSION,\n",
            )
        ],
        [f"{PRODUCE}/test_attempts.py::test_other_codes_end_a_send"],
    ),
    # -- push consumers
    Bug(
        "unfinished-message-is-committed",
        "a group's offset passes a message whose listener still runs: a kill loses it",
        [Change("        return next(iter(self._messages), self.next_offset)\n", "        return self.next_offset\n")],
        [f"{PUSH}/test_process_queue.py"],
    ),
    Bug(
        "offsets-of-broadcasting-consumers-under-a-new-name",
        "a broadcasting consumer without an instance name keeps its offsets where its next start does not look",
        [Change("yield path(options.instance_name or _DEFAULT_INSTANCE)", "yield path(options.instance_name)")],
        [f"{PUSH}/test_broadcasting_restart.py", f"{CONSUME}/test_offset_stores.py"],
    ),
    Bug(
        "broadcasting-consumers-share-a-file",
        "two broadcasting consumers of one host and group write the same file of offsets",
        [
            Change(
                "        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n    except OSError:\n        os.close(fd)\n",
                "        pass\n    except OSError:\n        os.close(fd)\n",
            )
        ],
        [f"{CONSUME}/test_offset_stores.py"],
    ),
    Bug(
        "reset-of-an-operator-looks-like-a-loss",
        "a consumer logs an operator's reset as an offset out of range",
        [Change("is_reset=status is PullStatus.OFFSET_ILLEGAL and reply.remark == _RESET", "is_reset=False")],
        [f"{PUSH}/test_push_consumer.py::test_reset_by_an_operator_is_logged_as_such"],
    ),
    Bug(
        "reset-of-one-queue-moves-all",
        "a reset of one queue lets clients of brokers of version 4 go on at the ends of all queues",
        [Change("offset=offset, timestamp=-1, is_force=False", "offset=offset, timestamp=-1, is_force=True")],
        ["tests/rocketflow/client/admin/test_admin_client.py"],
    ),
    Bug(
        "reset-without-force-skips-messages",
        "a reset to a later time skips messages that the group has not consumed, without force",
        [Change("(at, to) in changes.items() if to <= at}", "(at, to) in changes.items()}")],
        ["tests/rocketflow/cli/admin/test_admin_commands.py::test_reset_without_force_only_moves_offsets_back"],
    ),
    Bug(
        "deleted-topic-is-forgotten",
        "a consumer does not notice that its topic was deleted and created again with as many messages",
        [Change("            self._missing.add(queue)\n", "            pass\n")],
        [f"{PULL}/test_pull_consumer.py"],
    ),
    Bug(
        "ack-index-is-ignored",
        "messages of a batch that a listener did not acknowledge are not retried",
        [Change("    if context.ack_index is None:\n", "    if context.ack_index != -2:\n")],
        [
            f"{PUSH}/test_push_options.py",
            f"{PUSH}/test_push_consumer.py::test_messages_after_the_ack_index_are_retried_and_others_are_not",
        ],
    ),
    Bug(
        "orderly-queue-moves-while-it-is-consumed",
        "an orderly queue is unlocked while a call of the listener runs: two clients consume it at once",
        [
            Change(
                "                async with held.consuming:\n                    self._late",
                "                if held.is_dropped:\n                    self._late",
            )
        ],
        [f"{PUSH}/test_push_consumer.py::test_orderly_queue_that_moves_is_consumed_by_one_client_at_a_time"],
    ),
    Bug(
        "lock-is-not-looked-at-again",
        "an orderly queue is consumed although its lock has expired while it waited for its turn",
        [Change(" or not self._may_consume(held):  # it may", ":  # it may")],
        [f"{PUSH}/test_queue_locks.py"],
    ),
    Bug(
        "lock-lasts-from-the-answer",
        "a client that reads an old answer late trusts a lock that its broker has freed",
        [
            Change(
                "\n                locked[MessageQueue(one.topic, one.broker_name, one.queue_id)] = asked_at",
                "\n                locked[MessageQueue(one.topic, one.broker_name, one.queue_id)] = loop.time()",
            )
        ],
        [f"{PUSH}/test_queue_locks.py"],
    ),
    Bug(
        "offset-of-the-last-message-is-stored",
        "a group's offset passes messages that are not consumed yet: those of a killed client are lost",
        [Change("next(iter(self._messages), self.next_offset)", "self.next_offset")],
        [
            f"{PUSH}/test_process_queue.py",
            f"{ROWS}/simulated/test_simulated_cluster.py::test_nothing_acknowledged_is_lost[concurrent]",
        ],
    ),
    Bug(
        "retry-topic-stays-visible",
        "a retried message has the name of the retry topic instead of its own topic",
        [Change('message.topic = message.properties.get("RETRY_TOPIC", message.topic)\n\n', "pass\n\n")],
        [f"{PUSH}/test_push_consumer.py::test_failed_message_comes_again_under_its_topic_and_becomes_a_dead_letter"],
    ),
    Bug(
        "late-call-blocks-its-queue",
        "messages of a call that takes too long are cancelled, but not sent back",
        [Change("                if not batch.held.is_dropped:\n", "                if batch.held.is_dropped:\n")],
        [f"{PUSH}/test_push_consumer.py::test_call_that_takes_too_long_is_cancelled_and_its_message_retried"],
    ),
    Bug(
        "close-does-not-wait-for-calls",
        "a close stores offsets while calls of the listener run: their messages come twice",
        [Change("_, late = await asyncio.wait(tasks, timeout=seconds)", "late = set(tasks)")],
        [f"{PUSH}/test_push_consumer.py::test_close_waits_for_calls_that_run_and_stores_their_offsets"],
    ),
    Bug(
        "dead-letters-block-an-orderly-queue",
        "a message that was sent to the dead letters is consumed again",
        [
            Change(
                "                held.finish([one], asyncio.get_running_loop().time())\n            else:\n",
                "                pass\n            else:\n",
            )
        ],
        [f"{PUSH}/test_push_consumer.py::test_orderly_messages_keep_their_order_across_retries_and_dead_letters"],
    ),
    # -- shared by all clients
    Bug(
        "one-way-sends-without-limit",
        "one-way sends to a broker that does not read fill the memory of the producer",
        [Change("            await channel.wait_for_peer(timeout_s)\n", "            pass\n")],
        [f"{PRODUCE}/test_producer.py::test_one_way_sends_wait_for_a_broker_that_does_not_read"],
    ),
    Bug(
        "inner-messages-at-one-offset",
        "all messages of an inner batch have the offset of the batch: a consumer commits too little",
        [
            Change(
                "queue_offset=message.queue_offset + number,\n            stored_body=body",
                "queue_offset=message.queue_offset,\n            stored_body=body",
            )
        ],
        ["tests/rocketflow/client/test_received.py"],
    ),
    Bug(
        "clients-close-silently",
        "brokers are not told that a client leaves a group: its queues wait until its heartbeats are missed",
        [
            Change(
                "*(leave(one) for one in self._greeted if one.is_open)",
                "*(leave(one) for one in self._greeted if False)",
            )
        ],
        ["tests/rocketflow/client/produce/test_attempts.py"],
    ),
    Bug(
        "refused-heartbeats-are-logged-only",
        "a consumer whose account may not be in its group reads nothing, and its application gets no error",
        [
            Change(
                "                self._refusals[one.address] = str(one)\n                raise one\n",
                "                self._log_refusal(one)\n",
            )
        ],
        [REFUSALS],
    ),
    Bug(
        "refused-topic-stays-subscribed",
        "after a topic that the account may not read, brokers refuse the other topics of the consumer too",
        [
            Change(
                "                self._membership.unsubscribe(topic)  # the other topics would be refused with it\n",
                "",
            )
        ],
        [f"{REFUSALS}::test_consumer_whose_topic_is_refused_reads_another_one"],
    ),
    Bug(
        "first-name-server-is-not-waited-for",
        "a client that is started just before its NameServer fails",
        [Change("if self._was_answered or asyncio", "if True or asyncio")],
        ["tests/rocketflow/client/test_first_route.py"],
    ),
    Bug(
        "first-broker-is-not-waited-for",
        "a client that is started just before its broker fails",
        [Change("        await self.wait_for_brokers()\n        return", "        return")],
        ["tests/rocketflow/client/test_first_route.py"],
    ),
    Bug(
        "missing-topic-is-waited-for",
        "a topic that does not exist is an error after the time-out of the client only",
        [Change("return bool(decode_body(reply.body, ClusterInfo).broker_addr_table)", "return False")],
        ["tests/rocketflow/client/test_first_route.py"],
    ),
    Bug(
        "untraced-messages-have-rows",
        "a consumer writes rows about messages whose producer or broker wants none",
        [Change(' or one.properties.get("TRACE_ON") == "false":\n', ":\n")],
        [f"{PUSH}/test_traced_calls.py"],
    ),
    Bug(
        "refused-recalls-have-no-region",
        "the answer to a recall that is refused has no region: clients write no row of trace about it",
        [Change("self._answer(request, refusal.code, remark=refusal.remark)", "request.refuse(refusal)")],
        ["tests/rocketflow/client/produce/test_trace.py"],
    ),
    Bug(
        "subscriptions-below-those-of-a-clock-ahead",
        "a subscription is no newer than that of a client that has left: its messages are not delivered",
        [
            Change(
                "version = max(subscription.sub_version, self._newest.get(topic, 0) + 1)",
                "version = subscription.sub_version",
            )
        ],
        [f"{CONSUME}/test_membership.py", f"{CONSUME}/test_conflicts.py"],
    ),
    Bug(
        "conflict-is-cleared-before-it-has-ended",
        "a conflict is not reported once the client has renewed its subscription, though the broker kept another",
        [
            Change(
                "            group = await self._ask(address) or group\n"
                "            found = differences(self._membership.subscriptions(), group.subscription_table)\n",
                "            found = []\n",
            )
        ],
        [f"{CONSUME}/test_conflicts.py"],
    ),
    Bug(
        "pull-consumers-compare-nothing",
        "pull consumers of a group that subscribe differently are not reported",
        [Change("        self._check.start()\n", "")],
        [f"{PULL}/test_pull_consumer.py"],
    ),
    Bug(
        "waiting-pulls-keep-their-filter",
        "a pull that waits at the broker skips the messages that the group's newer subscription selects",
        [Change("pull = pull._replace(filter=self._subscribed(pull.header))", "pass")],
        [f"{PUSH}/test_push_consumer.py::test_subscription_counts_after_a_client_with_a_clock_ahead_has_left"],
    ),
    # -- commands of clients
    Bug(
        "silent-clients-subscribe-alike",
        "clients of a group that do not report count as clients with the same subscription",
        [Change("return True if len(known) == len(reports) else None", "return True")],
        [
            "tests/rocketflow/cli/admin/test_admin_commands.py::test_clients_that_do_not_report_are_not_taken_for_the_same"
        ],
    ),
    Bug(
        "commands-are-not-signed",
        "client commands ignore the account that they are given",
        [Change("        credentials=account,\n", "")],
        ["tests/rocketflow/cli/admin/test_accounts.py"],
    ),
    Bug(
        "interrupted-follow-is-an-error",
        "Ctrl-C, the only end of a command that follows, is reported as an error",
        [Change("        if not expected or number != signal.SIGINT:\n", "        if True:\n")],
        [
            "tests/rocketflow/cli/test_store_commands.py::test_interrupt_is_no_error_of_a_command_that_follows",
            "tests/rocketflow/cli/test_send_and_consume.py::test_interrupted_consumer_commits_what_it_printed",
        ],
    ),
    Bug(
        "help-is-cut",
        "lists of commands cut the sentences about them",
        [Change("    command.short_help = command.short_help or (text if found is None else found[0])\n", "")],
        ["tests/rocketflow/cli/test_front_door.py::test_list_of_commands_has_whole_sentences"],
    ),
    Bug(
        "profiles-are-readable-by-others",
        "the file with the secrets of profiles may be read by other users",
        [Change("os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)", "os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)")],
        [PROFILES],
    ),
    Bug(
        "used-profile-goes-to-another-cluster",
        "account and TLS of the profile in use are taken for a cluster that the command or NAMESRV_ADDR names",
        [Change("named if named is not None or _is_given(name_servers) or _is_given(variable) else", "named or")],
        [PROFILES],
    ),
    Bug(
        "named-profile-keeps-the-account-of-the-environment",
        "the account of the environment signs requests to the cluster of a profile that was named",
        [Change("    if account is None and named is None:\n", "    if account is None:\n")],
        [PROFILES],
    ),
    Bug(
        "last-messages-of-any-queue",
        "consume --last prints messages of one queue, and leaves out newer ones of the others",
        [
            Change(
                "sorted(everything, key=lambda one: (one.store_timestamp, one.physical_offset))[-count:]",
                "everything[-count:]",
            )
        ],
        ["tests/rocketflow/cli/test_send_and_consume.py::test_last_messages_are_the_newest_of_all_queues"],
    ),
    Bug(
        "permission-changes-queues",
        "updateTopicPerm sets the numbers of queues to the default",
        [
            Change(
                "            read_queue_nums=data.read_queue_nums,\n"
                "            write_queue_nums=data.write_queue_nums,\n"
                "            perm=perm",
                "            perm=perm",
            )
        ],
        ["tests/rocketflow/cli/admin/test_admin_commands.py"],
    ),
    Bug(
        "admin-hides-messages",
        "updateTopic hides the messages of queues that it takes from consumers, and says success",
        [Change("if queue >= read_queues and count}", "if False}")],
        ["tests/rocketflow/cli/admin/test_admin_commands.py"],
    ),
    Bug(
        "broker-hides-messages-silently",
        "a broker logs nothing about messages that a smaller number of queues hides",
        [Change("            for text in hidden:\n                LOG.warning(text)\n", "")],
        ["tests/rocketflow/cli/admin/test_admin_commands.py"],
    ),
    Bug(
        "nothing-is-deleted-with-success",
        "deleteTopic of a topic that nobody has says success",
        [Change("    if all(one is None for one in known):\n", "    if False:\n")],
        ["tests/rocketflow/cli/admin/test_admin_commands.py"],
    ),
    Bug(
        "refused-sends-end-like-unreachable-ones",
        "a send that brokers refuse ends a command with 69, as if no broker could be reached",
        [Change("(SendRefusedError if refused else SendFailedError)", "(SendFailedError)")],
        [REFUSALS],
    ),
    Bug(
        "each-line-is-refused-by-itself",
        "a send of many lines to a topic that the account may not write to prints a line for each",
        [
            Change(
                "if isinstance(error, SendFailedError) and error.code == ResponseCode.NO_PERMISSION:",
                "if False:",
            )
        ],
        [REFUSALS],
    ),
    Bug(
        "server-does-not-say-that-it-is-ready",
        "systemd and --wait are not told that a server serves",
        [Change("        say_ready(started())\n", "")],
        ["tests/rocketflow/cli/test_servers.py::test_server_says_at_the_socket_of_systemd_that_it_serves"],
    ),
    # -- parts of consumers, lite pull consumers
    Bug(
        "ring-without-its-start",
        "a queue whose hash is after the last point of the ring has no owner of its own",
        [Change("_md5_head(_java_text(one))) % len(points)", "_md5_head(_java_text(one))) - 1")],
        [f"{CONSUME}/test_allocation.py"],
    ),
    Bug(
        "clients-sorted-as-python-does",
        "ids of clients are sorted by code points, not by UTF-16 units as in Java",
        [
            Change(
                'return text.encode("utf-16-be", "surrogatepass")', 'return text.encode("utf-32-be", "surrogatepass")'
            )
        ],
        [f"{CONSUME}/test_allocation.py"],
    ),
    Bug(
        "hash-of-a-tag-is-enough",
        "a message whose tag only shares the hash of a wanted one is returned",
        [Change("or message.tags in one.tags_set", "or java_hash(message.tags or '') in one.code_set")],
        [f"{CONSUME}/test_subscriptions.py", f"{CONSUME}/test_pulls.py"],
    ),
    Bug(
        "slaves-are-asked-to-commit",
        "the flag of a commit is set in pulls of slaves too",
        [Change("commits = at_master and pull", "commits = pull")],
        [f"{CONSUME}/test_pulls.py"],
    ),
    Bug(
        "copy-of-offsets-not-read",
        "a damaged file of local offsets is not replaced by its copy",
        [Change("for one in (path, _copy_of(path)):", "for one in (path,):")],
        [f"{CONSUME}/test_offset_stores.py"],
    ),
    Bug(
        "retries-skipped-by-a-new-group",
        "a group that starts at the end skips the messages of its retry topic",
        [Change("return Bound.ZERO if is_retry else Bound.END", "return Bound.END")],
        [f"{CONSUME}/test_pulls.py"],
    ),
    Bug(
        "failed-handler-is-remembered",
        "the key of a message whose handler raised is remembered in memory",
        [
            Change(
                "            handle(None)\n            with self._lock:\n                self._known[key] = None\n",
                "            with self._lock:\n                self._known[key] = None\n"
                "            handle(None)\n            with self._lock:\n",
            )
        ],
        [f"{CONSUME}/test_idempotent.py"],
    ),
    Bug(
        "key-and-result-in-two-transactions",
        "the key of a message is committed before its handler runs",
        [
            Change(
                "                if is_new:\n                    handle(connection)\n",
                '                if is_new:\n                    connection.execute("COMMIT")\n'
                '                    connection.execute("BEGIN IMMEDIATE")\n                    handle(connection)\n',
            )
        ],
        [f"{CONSUME}/test_idempotent.py"],
    ),
    Bug(
        "reset-keeps-later-messages",
        "a correction to an earlier offset keeps messages that were pulled before it, and drops those after it",
        [Change("            self.seek(result.next_offset)\n            return\n", "            pass\n")],
        [f"{PULL}/test_queue_buffer.py"],
    ),
    Bug(
        "last-poll-committed-after-an-exception",
        "an exception in the block of a pull consumer commits the messages that it was handling",
        [Change("await (self.close() if kind is None else self.abort())", "await self.close()")],
        [f"{PULL}/test_pull_consumer.py"],
    ),
    Bug(
        "polls-commit-without-auto-commit",
        "a poll counts earlier messages as consumed although the caller commits",
        [
            Change(
                "        if self._options.auto_commit:\n            self._acknowledge()\n        if self._deferred",
                "        self._acknowledge()\n        if self._deferred",
            )
        ],
        [f"{PULL}/test_pull_consumer.py"],
    ),
    Bug(
        "prefetch-without-limit",
        "a queue is pulled ahead without regard to its share of the limits",
        [
            Change(
                "            buffer.count < self._options.prefetch_messages // shares\n"
                "            and buffer.size < self._options.prefetch_bytes // shares\n",
                "            shares > 0\n",
            )
        ],
        [f"{PULL}/test_pull_consumer.py"],
    ),
    Bug(
        "commit-undoes-a-reset",
        "the offset that an operator has reset is committed again as it was before",
        [Change("if corrected < asked and self._offsets", "if corrected > asked and self._offsets")],
        [f"{PULL}/test_pull_consumer.py"],
    ),
    Bug(
        "offsets-overtake-one-another",
        "an offset is sent before the one before it was answered: brokers with several threads may keep the older one",
        [
            Change(
                "        async with self._sending[queue]:\n            offset", "        if True:\n            offset"
            )
        ],
        ["tests/rocketflow/client/consume/test_offset_stores.py::test_offset_is_sent_once_the_one_before_it_is_stored"],
    ),
    Bug(
        "damaged-answer-loses-messages",
        "an answer that cannot be decoded loses the messages that were taken before it",
        [Change("                    if found:\n                        break  # the next call raises it\n", "")],
        [f"{PULL}/test_queue_buffer.py"],
    ),
    Bug(
        "interrupted-consumer-commits-nothing",
        "messages that a consumer printed before Ctrl-C are printed again by the next one",
        [
            Change(
                "        try:\n            await self._offsets.persist(held)\n        except ClientError as error:\n"
                '            LOG.warning("the last',
                "        try:\n            pass\n        except ClientError as error:\n"
                '            LOG.warning("the last',
            )
        ],
        ["tests/rocketflow/cli/test_send_and_consume.py::test_interrupted_consumer_commits_what_it_printed"],
    ),
    Bug(
        "sharding-key-chooses-no-queue",
        "messages with a sharding key are sent to all queues in turn",
        [Change("to = by_sharding_key if message.sharding_key else None", "to = None")],
        ["tests/rocketflow/cli/test_send_and_consume.py::test_messages_of_a_sharding_key_stay_in_order"],
    ),
    # -- Spark over the network
    Bug(
        "gaps-of-answers",
        "messages that an answer of a broker lacks are not noticed",
        [Change("            self._meet_missing(missing, skipped)\n", "")],
        [f"{STORE}/reading/test_pulled_records.py"],
    ),
    Bug(
        "crc-of-answers",
        "the CRC of records that a broker answered is not compared",
        [Change("        return judge_contents(records, bodies=bodies)[0]\n    rows", "        return {}\n    rows")],
        [f"{STORE}/reading/test_pulled_records.py"],
    ),
    Bug(
        "rest-of-an-answer",
        "the rest of a short answer is pulled after the ranges that follow it",
        [
            Change(
                "self._waiting.appendleft(self._asked(reached, end))", "self._waiting.append(self._asked(reached, end))"
            )
        ],
        [f"{NETWORK}/test_pull_window.py"],
    ),
    Bug(
        "brokers-that-are-away",
        "the queues of a broker that no NameServer knows are dropped: its messages count as lost",
        [Change(" | {key for key in before if key.store not in there}", "")],
        [f"{NETWORK}/test_queue_table.py"],
    ),
    Bug(
        "slaves-lose-messages",
        "messages that a slave does not have yet count as lost",
        [Change("if one.expected_offset <= one.high or not self._stores.may_lag(one.key)]", "]")],
        [f"{NETWORK}/test_network_reads.py::test_a_slave_is_read_while_the_master_is_down"],
    ),
    Bug(
        "ranges-of-other-messages",
        "a range has records that are other messages",
        [Change("    count = min(records.faults) if records.faults else run.stop\n", "    count = run.stop\n")],
        [f"{STORE}/reading/test_raw_ranges.py"],
    ),
    Bug(
        "retention-takes-the-rest",
        "where retention removed the first messages of a range, those that remain are skipped too",
        [Change("min(error.min_offset, one.end) if position < error.min_offset else one.end", "one.end")],
        [f"{NETWORK}/test_network_reads.py::test_messages_that_retention_removes_after_the_plan_are_a_loss_or_skipped"],
    ),
    Bug(
        "removed-under-a-running-query",
        "messages that retention removes while a query reads its queue, which grows no more, are noticed a batch late",
        [Change("            or position.next_offset < queues[key].low\n", "")],
        [f"{NETWORK}/test_network_reads.py::test_messages_removed_before_a_stream_reads_them_are_a_loss_or_skipped"],
    ),
    Bug(
        "broker-hides-what-it-skips",
        "an answer to a pull does not name the damaged messages that it lacks",
        [Change("            skipped_messages=_skipped_text(found.skipped) if found.skipped else None,\n", "")],
        [f"{CONSUME}/test_skipped_messages.py"],
    ),
    Bug(
        "gaps-in-silence",
        "an answer that has fewer messages than offsets is taken as complete",
        [Change("    if len(messages) >= end - start or not is_complete(result):\n", "    if end >= start:\n")],
        [f"{CONSUME}/test_skipped_messages.py"],
    ),
    Bug(
        "filters-make-gaps",
        "messages that a filter does not select are reported as damaged",
        [Change("OFFSET_ILLEGAL and selects_all(result.request.subscription)", "OFFSET_ILLEGAL")],
        [f"{CONSUME}/test_gaps.py"],
    ),
    Bug(
        "gaps-are-not-confirmed",
        "a gap is reported although a pull without the group's subscription returns its messages",
        [
            Change(
                "            if any(message.queue_offset < one.end for message in result.messages()):\n",
                "            if start < 0:\n",
            )
        ],
        [f"{CONSUME}/test_gaps.py"],
    ),
    Bug(
        "gaps-before-they-are-passed",
        "a pull consumer reports gaps of messages that it has pulled ahead and not returned",
        [Change("found = [one for one in self._skipped if one.start < self._position]", "found = list(self._skipped)")],
        [f"{CONSUME}/test_skipped_messages.py"],
    ),
    Bug(
        "consume-ends-with-0",
        "rocketflow consume ends with exit code 0 although messages could not be read",
        [Change("    if skipped or printer.skipped:\n", "    if printer.skipped:\n")],
        [f"{CONSUME}/test_skipped_messages.py"],
    ),
    Bug(
        "bridge-skips-without-counting",
        "damaged messages that a bridge skips are not counted as lost",
        [Change("        sent.lost = sum(", "        sent.lost = 0 * sum(")],
        [f"{KAFKA}/test_bad_input.py::test_damaged_message_of_the_store_stops_the_copy_or_counts_as_lost"],
    ),
    Bug(
        "old-first-offset",
        "a query plans with the first offset that a queue had at its first look",
        [
            Change(
                "low, high = begins.header(GetMinOffsetResponseHeader).offset,",
                "low, high = self.__dict__.setdefault(key, begins.header(GetMinOffsetResponseHeader).offset),",
            )
        ],
        [f"{NETWORK}/test_network_reads.py::test_messages_removed_before_a_stream_reads_them_are_a_loss_or_skipped"],
    ),
    Bug(
        "two-names-of-a-loss",
        "a loss that a task notices is reported in other words than one that the plan notices",
        [Change("loss = loss_of_range(one, bounds) or Loss(", "loss = Loss(")],
        [f"{NETWORK}/test_network_reads.py::test_messages_that_retention_removes_after_the_plan_are_a_loss_or_skipped"],
    ),
    Bug(
        "bytes-without-queue-units",
        "maxBytesPerTrigger has no effect at a broker that does not know the request for queue units",
        [Change("if len(sizes) and not sizes.any() and (first", "if not len(sizes) and (first")],
        [f"{NETWORK}/test_network_reads.py::test_bytes_limit_a_batch_at_a_broker_without_the_request_for_queue_units"],
    ),
    Bug(
        "failed-pull-loses-answers",
        "the answers that arrived before a failed pull are dropped with it",
        [Change("(_has_arrived(self._waiting[0][2]) and", "(self._waiting[0][2].done() and")],
        [f"{NETWORK}/test_pull_window.py"],
    ),
    Bug(
        "rows-of-parts-unproven",
        "a part with a right CRC is committed, whatever its rows are",
        [Change("            if fault is not None:\n", "            if fault is not None and fault[0] < 0:\n")],
        [f"{STORE}/commits/test_forged_parts.py"],
    ),
    Bug(
        "null-among-the-keys-of-a-part",
        "a part whose keys have nulls is no typed error",
        [Change("(*batch.columns, hashes.values)", "batch.columns")],
        [f"{STORE}/commits/test_forged_parts.py"],
    ),
    Bug(
        "tag-of-a-row-without-keys",
        "a part may say that a row without index entries has one for its tag",
        [
            Change(
                "(np.diff(np.asarray(hashes.offsets)) == 0)).any()", "(np.diff(np.asarray(hashes.offsets)) < 0)).any()"
            )
        ],
        [f"{STORE}/commits/test_forged_parts.py"],
    ),
    Bug(
        "parts-changed-after-their-proof",
        "a part that a task overwrites while it is committed reaches the log without a proof",
        [Change("        if int(crc32(octets)) != self.crc:\n", "        if len(octets) != self.size:\n")],
        [f"{STORE}/commits/test_forged_parts.py"],
    ),
    Bug(
        "topics-of-refused-parts",
        "a commit that is refused leaves its topics",
        [
            Change(
                "    chunks = proven_chunks(batch.parts, store.config, redelivered=False) if batch.rows else []\n"
                "    with store.one_topic_write():\n"
                "        for topic in sorted({topic for part in batch.parts for topic in part.topics}):\n"
                "            store.ensure_topic(topic, queues)\n",
                "    with store.one_topic_write():\n"
                "        for topic in sorted({topic for part in batch.parts for topic in part.topics}):\n"
                "            store.ensure_topic(topic, queues)\n"
                "    chunks = proven_chunks(batch.parts, store.config, redelivered=False) if batch.rows else []\n",
            )
        ],
        [f"{STORE}/commits/test_forged_parts.py"],
    ),
    Bug(
        "offsets-in-lmqs-of-parts",
        "a row of a part says its own offset in an LMQ",
        [Change("    yield holds != claimed, f", "    yield claimed & ~holds, f")],
        [f"{STORE}/commits/test_forged_parts.py"],
    ),
    Bug(
        "names-of-dots",
        "a sink id leads to the directory above its own",
        [Change('re.compile(r"[A-Za-z0-9_:@-][A', 're.compile(r"[A-Za-z0-9_.:@-][A')],
        [f"{ROWS}/test_forged_parts.py::test_part_name_that_is_no_plain_name_makes_no_file"],
    ),
    Bug(
        "properties-like-a-crc",
        "a message whose properties end as a record's CRC does is acknowledged, and damaged for all readers",
        [Change("        properties = unlike_crc(properties)\n        property_size", "        property_size")],
        [f"{STORE}/append/test_ends_like_a_crc.py"],
    ),
    Bug(
        "properties-of-the-store-in-batches",
        "a message of a batch says its own offset in an LMQ",
        [Change("_without_assigned(self._entries(batch), batch.body)", "self._entries(batch)")],
        [f"{STORE}/append/test_ends_like_a_crc.py"],
    ),
    Bug(
        "holes-of-sent-parts",
        "a part whose bytes come out of order has a hole",
        [Change("                if position > os_files.file_size(fd):\n", "                if position < 0:\n")],
        [f"{STORE}/commits/test_received_parts.py"],
    ),
    Bug(
        "keys-of-rows",
        "rows of different partitions have the same unique keys: a replay finds those of another task",
        [Change('f"{sink_id}\\0{batch_id}\\0{partition}"', 'f"{sink_id}\\0{batch_id}"')],
        ["tests/rocketflow/spark/sink/test_row_messages.py"],
    ),
    Bug(
        "secrets-in-texts",
        "the text of a network has the secret of its account",
        [Change('    secret_key: str = field(default="", repr=False)\n', '    secret_key: str = ""\n')],
        ["tests/rocketflow/spark/test_options.py::test_credentials_come_from_options_a_file_or_the_environment"],
    ),
    Bug(
        "address-is-taken-for-a-directory",
        "the stream job looks for a store in a directory with the name of a NameServer",
        [Change('{"namesrvAddr" if is_address else "path": text}', '{"path": text}')],
        ["tests/rocketflow/spark/test_stream_job.py::test_address_as_source_and_sink_is_that_of_name_servers"],
    ),
    # -- settings over the network, and unchecked codes
    Bug(
        "settings-over-the-network",
        "all settings that a broker reads at each use may be changed over the network, listed or not",
        [Change("        allowed = self._settings.admin_keys\n", "        allowed = self._settings.live_keys\n")],
        [
            "tests/rocketflow/broker/test_config_requests.py::test_a_broker_that_lists_no_key_changes_nothing",
            "tests/rocketflow/process/test_live_settings.py::test_only_listed_keys_are_changed_and_all_or_none",
        ],
    ),
    Bug(
        "listed-paths",
        "any key may be listed as one that is changed over the network",
        [Change("sorted(self.admin_keys - self.live_keys)", "sorted(self.admin_keys - self.shown().keys())")],
        ["tests/rocketflow/process/test_live_settings.py"],
    ),
    Bug(
        "changes-that-are-not-kept",
        "a changed setting counts although it cannot be written",
        [
            Change(
                "                    raise RefusedError(ResponseCode.SYSTEM_ERROR, why) from None\n"
                "            self._settings",
                "                    LOG.error(why)\n            self._settings",
            )
        ],
        ["tests/rocketflow/broker/test_config_requests.py::test_what_cannot_be_written_does_not_count"],
    ),
    Bug(
        "version-of-permissions",
        "the topics keep their version when the broker's permission changes: Apache's NameServers ignore it",
        [
            Change(
                "        self.create_system_topics()\n        self._table.renew_version()\n",
                "        self.create_system_topics()\n",
            )
        ],
        ["tests/rocketflow/broker/test_config_requests.py::test_a_new_permission_has_a_new_version_of_the_topics"],
    ),
    Bug(
        "whitelists-swapped",
        "codes that need no policy need no user instead, and the other way round",
        [
            Change(
                "settings.authorizes, settings.unauthenticated, settings.unauthorized)",
                "settings.authorizes, settings.unauthorized, settings.unauthenticated)",
            )
        ],
        ["tests/rocketflow/broker/test_user_settings.py"],
    ),
    Bug(
        "unauthorized-is-not-read",
        "the list of codes that need no policy is ignored",
        [Change("elif not self.authorizes or command.code in self.unauthorized:", "elif not self.authorizes:")],
        [
            "tests/rocketflow/access/test_user_rules.py::test_codes_that_need_no_policy_need_a_user",
            "tests/rocketflow/broker/test_user_settings.py",
        ],
    ),
    # -- stop
    Bug(
        "nobody-goes-away",
        "a broker that stops tells no client to leave",
        [Change("if self._stopping and _may_go_away(command):", "if self._stopping and False:")],
        ["tests/rocketflow/aio/test_server_stop.py", "tests/rocketflow/broker/test_stop.py"],
    ),
    Bug(
        "old-clients-go-away",
        "a server that stops answers old clients, and RocketFlow's jobs, with a code that they do not know",
        [
            Change(
                "command.version >= GO_AWAY_SINCE and not command.is_one_way and command.code not in OWN_CODES",
                "not command.is_one_way",
            )
        ],
        ["tests/rocketflow/aio/test_server_stop.py"],
    ),
)
