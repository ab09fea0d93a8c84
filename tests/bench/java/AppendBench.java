import java.lang.reflect.Constructor;
import java.net.InetSocketAddress;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Appends to Apache's own store in this process, ASYNC_FLUSH, one key and a UNIQ_KEY a message, and waits until queues
 * and index have caught up. Arguments: directory, threads, messages a thread, body size, warm-up messages. Answer:
 * seconds till the last put, seconds till all is dispatched.
 */
public class AppendBench {
    public static void main(String[] args) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(args[0]);
        config.setStorePathCommitLog(args[0] + "/commitlog");
        config.setHaListenPort(0);
        config.setDiskMaxUsedSpaceRatio(99);
        DefaultMessageStore store = create(config);
        if (!store.load()) {
            System.exit(1);
        }
        store.start();
        int threads = Integer.parseInt(args[1]);
        int count = Integer.parseInt(args[2]);
        byte[] body = new byte[Integer.parseInt(args[3])];
        new Random(7).nextBytes(body);
        put(store, 0, Integer.parseInt(args[4]), body);
        dispatched(store);
        long began = System.nanoTime();
        Thread[] workers = new Thread[threads];
        for (int number = 0; number < threads; number++) {
            int queue = number;
            workers[number] = new Thread(() -> put(store, queue, count, body));
            workers[number].start();
        }
        for (Thread one : workers) {
            one.join();
        }
        long put = System.nanoTime();
        dispatched(store);
        long end = System.nanoTime();
        System.out.println((put - began) / 1e9 + " " + (end - began) / 1e9);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void put(DefaultMessageStore store, int queue, int count, byte[] body) {
        InetSocketAddress host = new InetSocketAddress("127.0.0.1", 10911);
        for (int number = 0; number < count; number++) {
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            message.setTopic("t");
            message.setBody(body);
            message.setTags("tag" + number % 7);
            message.setKeys("order-" + number);
            MessageClientIDSetter.setUniqID(message);
            message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
            message.setQueueId(queue);
            message.setBornTimestamp(System.currentTimeMillis());
            message.setBornHost(host);
            message.setStoreHost(host);
            PutMessageResult result = store.putMessage(message);
            while (!result.isOk()) {
                Thread.onSpinWait();
                result = store.putMessage(message);
            }
        }
    }

    private static void dispatched(DefaultMessageStore store) throws Exception {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
    }

    private static DefaultMessageStore create(MessageStoreConfig config) throws Exception {
        BrokerStatsManager stats = new BrokerStatsManager("bench", false);
        for (Constructor<?> one : DefaultMessageStore.class.getConstructors()) {
            if (one.getParameterCount() == 5) {
                return (DefaultMessageStore) one.newInstance(
                    config, stats, null, new BrokerConfig(), new ConcurrentHashMap<>());
            }
        }
        throw new IllegalStateException("no constructor that is known");
    }
}
