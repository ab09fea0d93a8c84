"""Lines that mqadmin prints at one side alone, RocketFlow's servers or Apache's, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

Differences = Iterable[tuple[str, str, str]]
"""Command, line and reason; `*` in a command or a line stands for any text. The first that fits counts."""

SAME: Final = ""
"""The reason of lines that are the same at both sides, or a difference that nothing explains."""

_RACE: Final = "It depends on the moment: a table of the client or of the broker that is made some time later."
_TOPICS: Final = "RocketFlow's broker creates no system topics of services that it does not have (POP, members)."
_ITSELF: Final = "5.3.3's table of the groups of a topic has the topic's own name as a group."
_CRC: Final = "A record of RocketFlow has a CRC property of 20 bytes; 4.9.7's has none."
_SETTINGS: Final = "Each server lists its own settings."
_REMOTE: Final = "RocketFlow's servers change a setting over the network only if rocketflow.adminConfigKeys lists it."
_WORDS: Final = "Other words for the same refusal, under the same code."
_POP: Final = "RocketFlow's broker has no POP: the mode is refused."
_NO_POP: Final = "RocketFlow's broker has no POP, and so no records of it."
_REPLICAS: Final = "RocketFlow's broker has no replicas: request 908 is refused."
_CONTROLLER: Final = "Neither broker has a controller; both refuse, under other codes."
_ROCKSDB: Final = "RocketFlow's store has no RocksDB queues."
_COLD: Final = "RocketFlow's broker has no flow control of cold reads; its cold pulls are limited by their number."
_USER_TYPE: Final = "RocketFlow's broker refuses a type of users that does not exist; Apache's makes a normal user."
_SUBJECT: Final = (
    "Apache's broker fails with a system error where a subject has no kind; RocketFlow's says what is wrong."
)
_ACL: Final = (
    "RocketFlow reads plain_acl.yml again when it changes, and does not write it: requests 50 to 54 are refused."
)
_FIGURES: Final = "Figures of parts that only one of the two brokers has."
_QUEUES: Final = "RocketFlow's broker has no queues of these kinds: transactions, queries and lite pulls run at once."
_FILTERS: Final = "A setting of 4.9.7, which its exportConfigs reads."
_FIELDS: Final = "Topics and groups have the fields of 5.3.3."
_LIMITS: Final = "RocketFlow's limit of waiting pulls is another one."
_VERSION: Final = "RocketFlow's broker answers as version 5.3.3."
_CODES: Final = "The same refusal under 5.3.3's code."
_LATER: Final = "4.9.7 makes the topics of transactions with the first of them."
_SYSTEM: Final = "5.3.3 counts messages of the day without those of system topics."


def _named(command: str, names: str, reason: str) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of lines that begin with one of the names."""
    return ((command, f"{name}[ :]*", reason) for name in names.split())


_KNOWN: Final[Differences] = (
    ("topicList*", "*rmq_sys_*", _TOPICS),
    ("topicList* -c", "RF RMQ_SYS_TRANS_*", _RACE),
    ("wipeWritePerm*", "wipe write perm of broker?broker-a? in name server?NAMES? OK, *", _TOPICS),
    ("addWritePerm*", "add write perm of broker?broker-a? in name server?NAMES? OK, *", _TOPICS),
    ("updateTopic*", "* DESC: * illegal characters, *", _WORDS),
    ("updateTopic*", "* DESC: topic='bad name': *", _WORDS),
    ("updateTopic* -t typed *", "*CODE: 1 DESC: *", _WORDS),
    ("updateSubGroup* -g typed *", "*CODE: 1 DESC: *", _WORDS),
    ("query*", "MessageTrack ?consumerGroup=made, *", _ITSELF),
    ("queryMsgByUniqueKey*", "MessageTrack ?consumerGroup=readers, *", _ITSELF),
    ("statsAll*", "made made *", _ITSELF),
    ("consumerStatus*", "%RETRY%readers broker-a 0 *", _RACE),
    ("setConsumeMode* POP", "*", _POP),
    ("checkRocksdbCqWriteProgress*", "*", _ROCKSDB),
    ("*ColdDataFlowCtr*", "*", _COLD),
    ("setCommitLogReadAheadMode*", "*", _COLD),
    ("resetMasterFlushOffset*", "*", _REPLICAS),
    ("exportPopRecord*", "*", _NO_POP),
    ("getBrokerEpoch*", "*DESC: *", _CONTROLLER),
    ("getBrokerConfig*", "* = *", _SETTINGS),
    ("getBrokerConfig*", "* =", _SETTINGS),
    ("getNamesrvConfig*", "* = *", _SETTINGS),
    ("getNamesrvConfig*", "* =", _SETTINGS),
    ("updateBrokerConfig* maxMessageSize *", "*", _REMOTE),
    ("updateNamesrvConfig*", "*", _REMOTE),
    ("brokerStatus*", "msg[GP]?tTotal*", _SYSTEM),
    ("brokerStatus*", "pullThreadPoolQueueCapacity *", _LIMITS),
    ("createUser* -t Fancy", "*", _USER_TYPE),
    ("listUser*", "kim *", _USER_TYPE),
    ("createAcl* -s bob *", "*DESC: *", _SUBJECT),
    ("*Acl*", "*CODE: 16 DESC: *", _WORDS),
    ("*Acl?onfig*", "*", _ACL),
    ("updateGlobalWhiteAddr*", "*", _ACL),
)

_BROKER_KEYS: Final = """
    aclEnable autoCreateSubscriptionGroup autoCreateTopicEnable bindAddress brokerClusterName brokerIP1 brokerId
    brokerName brokerPermission brokerRole brokerTopicEnable clientCallbackExecutorThreads clusterTopicEnable
    defaultTopicQueueNums enablePropertyFilter fileReservedTime flushConsumerOffsetInterval flushDiskType
    haListenPort listenPort longPollingEnable mappedFileSizeCommitLog maxHashSlotNum maxIndexNum maxMessageSize
    messageDelayLevel msgTraceTopicName namesrvAddr notifyConsumerIdsChangedEnable regionId
    registerBrokerTimeoutMills registerNameServerPeriod rejectTransactionMessage rocketmqHome
    serverChannelMaxIdleTimeSeconds shortPollingTimeMills slaveReadEnable startAcceptSendRequestTimeStamp
    storePathRootDir storeReplyMessageEnable syncFlushTimeout traceOn traceTopicEnable transactionCheckInterval
    transactionCheckMax transactionTimeOut useTLS waitTimeMillsInSendQueue
"""
"""Settings that brokers of both versions and RocketFlow's list."""

_BROKER_KEYS_OF_5: Final = """
    allowRecallWhenBrokerNotWriteable litePullMessageEnable metricsExporterType metricsPromExporterHost
    metricsPromExporterPort recallMessageEnable transactionOpMsgMaxSize
"""

_NAME_SERVER_KEYS: Final = """
    bindAddress configStorePath kvConfigPath listenPort orderMessageEnable rocketmqHome serverChannelMaxIdleTimeSeconds
"""

_NAME_SERVER_KEYS_OF_5: Final = """
    deleteTopicWithBrokerRegistration enableAllTopicList enableTopicList needWaitForService
    returnOrderTopicConfigToBroker scanNotActiveBrokerInterval supportActingMaster waitSecondsForService
"""

_FIGURES_OF_ONE: Final = """
    commitLogDirCapacity commitLogDiskRatio_* dispatchMaxBuffer putMessageDistributeTime remainTransientStoreBufferNumbs
    diskFull fenced getMessageTimesTotalFound getMessageTimesTotalMiss getMessageTransferredMsgCount isOSPageCacheBusy
    mappedFilesLocked mappedFilesMadeAhead mappedFilesMadeLate removedBytes removedFiles rocketflowVersion
"""
"""Apache's brokers have those of the first line, RocketFlow's the others."""

_QUEUES_OF_APACHE: Final = """
    EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity queryThreadPoolQueueCapacity queryThreadPoolQueueSize
"""

_BOTH: Final[Differences] = (
    *_named("getBrokerConfig*", _BROKER_KEYS, SAME),
    *_named("getNamesrvConfig*", _NAME_SERVER_KEYS, SAME),
    *_named("brokerStatus*", _FIGURES_OF_ONE, _FIGURES),
    *_named("brokerStatus*", _QUEUES_OF_APACHE, _QUEUES),
    *_KNOWN,
)

_OF_5_3_3: Final[Differences] = (
    *_named("getBrokerConfig*", _BROKER_KEYS_OF_5, SAME),
    *_named("getNamesrvConfig*", _NAME_SERVER_KEYS_OF_5, SAME),
    *_named("brokerStatus*", "ackThreadPoolQueueCapacity litePullThreadPoolQueue*", _QUEUES),
    *_named("brokerStatus*", "getTransferedTps", _FIGURES),
    ("exportConfigs*", "*.filterServerNums: *", _FILTERS),
)

_OF_4_9_7: Final[Differences] = (
    *_named("brokerStatus*", "ackThreadPoolQueue* brokerActive getTransferredTps timer*", _FIGURES),
    *_named("brokerStatus*", "brokerVersion brokerVersionDesc", _VERSION),
    ("exportMetadata*", "*.attributes: {}", _FIELDS),
    ("exportMetadata*", "subscriptionGroupTable.*.consumeMessageOrderly: *", _FIELDS),
    ("exportMetadata*", "subscriptionGroupTable.*.consumeTimeoutMinute: *", _FIELDS),
    ("exportMetadata*", "subscriptionGroupTable.*.groupRetryPolicy.*", _FIELDS),
    ("exportMetadata*", "subscriptionGroupTable.*.groupSysFlag: *", _FIELDS),
    ("clusterList*", "* V?_?_? *", _VERSION),
    ("updateTopic*", "* DESC: The topic?TBW102? is conflict with system topic.", _CODES),
    ("topicList*", "*RMQ_SYS_TRANS_*", _LATER),
    ("resetOffsetByTime*", "*DESC: *", _CODES),
    ("consumerStatus*", "made broker-a 0 *", _RACE),
    ("query*", "CommitLog Offset: *", _CRC),
    ("query*", "Properties: *", _CRC),
    ("queryCq*", "ConsumeQueueData*", _CRC),
    ("consumeMessage*", "*MessageExt *", _CRC),
    ("printMsg*", "*MessageExt *", _CRC),
)


def differences(version: str) -> Differences:
    """Return the explained differences between RocketFlow's servers and those of a version."""
    return (*(_OF_4_9_7 if version == "4.9.7" else _OF_5_3_3), *_BOTH)
