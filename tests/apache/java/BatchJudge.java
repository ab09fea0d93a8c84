import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Apache's own store over a directory in which every topic named in args[6] (separated by commas) is a BatchCQ topic:
 * BATCH topic queueId base64(body) count tags | ONE topic queueId base64(body) tags | READ topic queueId.
 */
public class BatchJudge {
    public static void main(String[] args) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(args[0]);
        config.setStorePathCommitLog(args[0] + "/commitlog");
        config.setMappedFileSizeCommitLog(Integer.parseInt(args[1]));
        config.setMappedFileSizeConsumeQueue(Integer.parseInt(args[2]));
        config.setMapperFileSizeBatchConsumeQueue(Integer.parseInt(args[3]));
        config.setMaxHashSlotNum(Integer.parseInt(args[4]));
        config.setMaxIndexNum(Integer.parseInt(args[5]));
        config.setHaListenPort(0);
        config.setDiskMaxUsedSpaceRatio(99);
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        for (String name : args[6].split(",")) {
            TopicConfig topic = new TopicConfig(name, 2, 2);
            topic.setAttributes(Map.of("queue.type", "BatchCQ"));
            topics.put(name, topic);
        }
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("judge", false),
            (topic, queueId, offset, code, time, bits, properties) -> { }, new BrokerConfig(), topics);
        boolean loaded = store.load();
        System.out.println("LOADED\t" + loaded);
        if (!loaded) {
            System.exit(1);
        }
        store.start();
        dispatched(store);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "BATCH": put(store, words[1], words[2], words[3], Integer.parseInt(words[4]), words[5]); break;
                case "ONE": put(store, words[1], words[2], words[3], 0, words[4]); break;
                case "READ": read(store, words[1], Integer.parseInt(words[2])); break;
                default: throw new IllegalArgumentException(line);
            }
            System.out.flush();
        }
        dispatched(store);
        Thread.currentThread().interrupt(); // ends its wait of seconds for the dispatch, which is complete
        store.shutdown();
        System.out.println("CLOSED");
        System.exit(0);
    }

    private static void dispatched(DefaultMessageStore store) throws Exception {
        long end = System.currentTimeMillis() + 60_000;
        while (store.dispatchBehindBytes() > 0) {
            if (System.currentTimeMillis() > end) {
                System.out.println("LAGGING\t" + store.dispatchBehindBytes() + "\t60000");
                System.out.flush();
                Runtime.getRuntime().halt(3);
            }
            Thread.sleep(5);
        }
    }

    private static void put(DefaultMessageStore store, String topic, String queueId, String body, int count, String tags) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(topic);
        message.setQueueId(Integer.parseInt(queueId));
        message.setBody(Base64.getDecoder().decode(body));
        message.setTags(tags);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 1234));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(null, tags));
        if (count > 0) {
            message.setSysFlag(MessageSysFlag.NEED_UNWRAP_FLAG | MessageSysFlag.INNER_BATCH_FLAG);
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_INNER_NUM, String.valueOf(count));
        }
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        PutMessageResult result = store.putMessage(message);
        System.out.println("PUT\t" + result.getPutMessageStatus() + "\t" + result.getAppendMessageResult().getLogicsOffset());
    }

    private static void read(DefaultMessageStore store, String topic, int queueId) throws Exception {
        dispatched(store);
        long offset = store.getMinOffsetInQueue(topic, queueId);
        long max = store.getMaxOffsetInQueue(topic, queueId);
        System.out.println("BOUNDS\t" + topic + "\t" + queueId + "\t" + offset + "\t" + max);
        ConsumeQueueInterface queue = store.findConsumeQueue(topic, queueId);
        for (long at = offset; at < max; ) {
            ReferredIterator<CqUnit> units = queue.iterateFrom(at);
            if (units == null) {
                break;
            }
            while (units.hasNext()) {
                CqUnit unit = units.next();
                System.out.println(String.join("\t", "UNIT", topic, "" + queueId, "" + unit.getQueueOffset(), "" + unit.getPos(),
                    "" + unit.getSize(), "" + unit.getTagsCode(), "" + unit.getBatchNum()));
                at = unit.getQueueOffset() + unit.getBatchNum();
            }
            units.release();
        }
        while (offset < max) {
            GetMessageResult got = store.getMessage("judge", topic, queueId, offset, 1, null);
            if (got == null || got.getMessageBufferList().isEmpty()) {
                System.out.println("STUCK\t" + topic + "\t" + queueId + "\t" + offset + "\t" + (got == null ? null : got.getStatus()));
                return;
            }
            for (ByteBuffer buffer : got.getMessageBufferList()) {
                MessageExt message = MessageDecoder.decode(buffer, true, false);
                StringBuilder properties = new StringBuilder();
                message.getProperties().forEach((name, value) -> properties.append(name).append('\u0001').append(value).append('\u0002'));
                System.out.println(String.join("\t", "MESSAGE", topic, "" + queueId, "" + message.getQueueOffset(),
                    "" + message.getCommitLogOffset(), "" + message.getStoreSize(), "" + message.getStoreTimestamp(), "" + message.getSysFlag(),
                    "" + message.getBodyCRC(), base64(message.getBody()), base64(properties.toString().getBytes(StandardCharsets.UTF_8)),
                    "" + got.getNextBeginOffset()));
            }
            offset = got.getNextBeginOffset();
            got.release();
        }
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes == null ? new byte[0] : bytes);
    }
}
