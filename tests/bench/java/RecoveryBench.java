import java.lang.reflect.Constructor;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Opens a store directory with Apache's own store and waits until queues and index have caught up. Argument: directory.
 * Answer: seconds, end of the log.
 */
public class RecoveryBench {
    public static void main(String[] args) throws Exception {
        long began = System.nanoTime();
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
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
        System.out.println((System.nanoTime() - began) / 1e9 + " " + store.getMaxPhyOffset());
        System.out.flush();
        Runtime.getRuntime().halt(0);
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
