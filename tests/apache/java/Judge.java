import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.lang.reflect.Constructor;
import java.net.Inet6Address;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Apache's own store over a directory, driven by lines on stdin:
 * READ topic queueId | KEY topic key | PUT topic queueId base64(body) tags keys. One answer a line; fields by tabs.
 * The environment's STORE_PATH_COMMIT_LOG names the CommitLog's directories where they are not below args[0], JUDGE_CONF
 * holds lines of a broker.conf.
 * Where args[0] is "-" the directories come on stdin, one after another: OPEN path. Each is answered by OPENED or REFUSED,
 * and thrown away at the next.
 */
public class Judge {
    private static final long DISPATCH_MILLIS = 60_000;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("-")) {
            try {
                oneAfterAnother(args);
                System.out.println("CLOSED");
            } catch (Throwable error) {
                error.printStackTrace();
            }
            System.out.flush();
            Runtime.getRuntime().halt(0); // whatever threads are left: the directories are thrown away
        }
        DefaultMessageStore store = create(config(args[0], args));
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
                case "READ": read(store, words[1], Integer.parseInt(words[2])); break;
                case "KEY": key(store, words[1], words[2]); break;
                case "PUT": put(store, words); break;
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

    private static MessageStoreConfig config(String path, String[] args) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(path);
        config.setStorePathCommitLog(System.getenv().getOrDefault("STORE_PATH_COMMIT_LOG", path + "/commitlog"));
        config.setMappedFileSizeCommitLog(Integer.parseInt(args[1]));
        config.setMappedFileSizeConsumeQueue(Integer.parseInt(args[2]));
        config.setMaxHashSlotNum(Integer.parseInt(args[3]));
        config.setMaxIndexNum(Integer.parseInt(args[4]));
        config.setHaListenPort(0);
        config.setDiskMaxUsedSpaceRatio(99);
        Properties more = new Properties();
        more.load(new StringReader(System.getenv().getOrDefault("JUDGE_CONF", "")));
        MixAll.properties2Object(more, config);
        return config;
    }

    private static void oneAfterAnother(String[] args) throws Exception {
        ExecutorService closing = Executors.newFixedThreadPool(8); // an orderly end takes seconds
        DefaultMessageStore store = null;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            if (words[0].equals("OPEN")) {
                if (store != null) {
                    closing.submit(store::shutdown);
                }
                store = create(config(words[1], args));
                boolean loaded;
                try {
                    loaded = store.load();
                    if (loaded) {
                        store.start();
                        dispatched(store);
                    }
                } catch (Exception error) {
                    loaded = false;
                    error.printStackTrace();
                }
                System.out.println((loaded ? "OPENED\t" : "REFUSED\t") + words[1]);
                if (!loaded) {
                    store = null;
                }
            } else if (store != null) {
                read(store, words[1], Integer.parseInt(words[2]));
            }
            System.out.flush();
        }
    }

    private static DefaultMessageStore create(MessageStoreConfig config) throws Exception {
        BrokerStatsManager stats = null;
        for (Constructor<?> one : BrokerStatsManager.class.getConstructors()) {
            Class<?>[] kinds = one.getParameterTypes();
            if (kinds.length == 2 && kinds[0] == String.class && kinds[1] == boolean.class) {
                stats = (BrokerStatsManager) one.newInstance("judge", false);
            } else if (stats == null && kinds.length == 1 && kinds[0] == String.class) {
                stats = (BrokerStatsManager) one.newInstance("judge");
            }
        }
        MessageArrivingListener nobody = (topic, queueId, offset, code, time, bits, properties) -> { };
        BrokerConfig broker = new BrokerConfig();
        for (Constructor<?> one : DefaultMessageStore.class.getConstructors()) {
            if (one.getParameterCount() == 4) {
                return (DefaultMessageStore) one.newInstance(config, stats, nobody, broker);
            }
            if (one.getParameterCount() == 5) {
                return (DefaultMessageStore) one.newInstance(config, stats, nobody, broker, new ConcurrentHashMap<>());
            }
        }
        throw new IllegalStateException("no constructor that is known");
    }

    private static void dispatched(DefaultMessageStore store) throws Exception {
        long end = System.currentTimeMillis() + DISPATCH_MILLIS;
        while (store.dispatchBehindBytes() > 0) {
            if (System.currentTimeMillis() > end) {
                System.out.println("LAGGING\t" + store.dispatchBehindBytes() + "\t" + DISPATCH_MILLIS);
                System.out.flush();
                Runtime.getRuntime().halt(3); // an orderly end would wait for the dispatch as well
            }
            Thread.sleep(5);
        }
    }

    private static void read(DefaultMessageStore store, String topic, int queueId) throws Exception {
        dispatched(store);
        long offset = store.getMinOffsetInQueue(topic, queueId);
        long max = store.getMaxOffsetInQueue(topic, queueId);
        System.out.println("BOUNDS\t" + topic + "\t" + queueId + "\t" + offset + "\t" + max);
        while (offset < max) {
            GetMessageResult got = store.getMessage("judge", topic, queueId, offset, 32, null);
            if (got == null || got.getMessageBufferList().isEmpty()) {
                System.out.println("STUCK\t" + topic + "\t" + queueId + "\t" + offset + "\t" + (got == null ? null : got.getStatus()));
                if (got == null || got.getNextBeginOffset() <= offset) {
                    return;
                }
                offset = got.getNextBeginOffset();
                continue;
            }
            for (ByteBuffer buffer : got.getMessageBufferList()) {
                MessageExt message = MessageDecoder.decode(buffer, true, false);
                if (message == null) { // handed out all the same: Java looks at no CRC here
                    System.out.println("UNREADABLE\t" + topic + "\t" + queueId);
                    continue;
                }
                print(message, tagsCode(store, topic, queueId, message.getQueueOffset()));
            }
            offset = got.getNextBeginOffset();
            got.release();
        }
    }

    private static void key(DefaultMessageStore store, String topic, String key) throws Exception {
        dispatched(store);
        QueryMessageResult found = store.queryMessage(topic, key, 64, 0, Long.MAX_VALUE);
        for (ByteBuffer buffer : found.getMessageBufferList()) {
            MessageExt message = MessageDecoder.decode(buffer, true, false);
            print(message, tagsCode(store, message.getTopic(), message.getQueueId(), message.getQueueOffset()));
        }
        found.release();
        System.out.println("END");
    }

    /** Of the ConsumeQueue unit: physical offset (8), size (4), tags code (8). */
    private static long tagsCode(DefaultMessageStore store, String topic, int queueId, long queueOffset) {
        SelectMappedBufferResult unit = ((ConsumeQueue) store.findConsumeQueue(topic, queueId)).getIndexBuffer(queueOffset);
        if (unit == null) {
            return Long.MIN_VALUE; // the record names a place that its queue does not have
        }
        try {
            return unit.getByteBuffer().getLong(12);
        } finally {
            unit.release();
        }
    }

    private static String host(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        String ip = host.getAddress().getHostAddress();
        return (host.getAddress() instanceof Inet6Address ? "[" + ip + "]" : ip) + ":" + host.getPort();
    }

    private static void print(MessageExt message, long tagsCode) {
        StringBuilder properties = new StringBuilder();
        Map<String, String> there = message.getProperties();
        (there == null ? Map.<String, String>of() : there).forEach((name, value) -> properties.append(name).append('\u0001').append(value).append('\u0002'));
        System.out.println(String.join("\t", "MESSAGE", message.getTopic(), "" + message.getQueueId(), "" + message.getQueueOffset(),
            "" + message.getCommitLogOffset(), "" + message.getStoreSize(), "" + message.getFlag(), "" + message.getBornTimestamp(),
            "" + message.getStoreTimestamp(), "" + message.getSysFlag(), "" + message.getBodyCRC(), "" + tagsCode, message.getMsgId(),
            host(message.getBornHost()), host(message.getStoreHost()), base64(message.getBody()), base64(properties.toString().getBytes(StandardCharsets.UTF_8))));
    }

    private static void put(DefaultMessageStore store, String[] words) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(words[1]);
        message.setQueueId(Integer.parseInt(words[2]));
        message.setBody(Base64.getDecoder().decode(words[3]));
        message.setTags(words[4]);
        message.setKeys(words[5]);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 1234));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(null, words[4]));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        PutMessageResult result = store.putMessage(message);
        System.out.println("PUT\t" + result.getPutMessageStatus() + "\t" + result.getAppendMessageResult().getLogicsOffset());
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes == null ? new byte[0] : bytes);
    }
}
