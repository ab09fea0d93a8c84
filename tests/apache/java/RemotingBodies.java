import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.ByteArrayInputStream;
import java.io.PrintWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.jar.JarFile;
import java.util.zip.InflaterInputStream;
import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.common.KeyBuilder; // 5.x
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.producer.RecallMessageHandle; // 5.x
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.remoting.protocol.body.ResetOffsetBody;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil; // 5.x
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/**
 * Writes bodies.jsonl, body_readings.jsonl and texts.jsonl into args[0]; args[1] is the package of RequestCode. The source
 * is written for 5.x; for 4.x the packages are replaced and the lines that end with the mark 5.x are dropped.
 */
public class RemotingBodies {
    private static final long TIME = 1_700_000_000_000L;
    private static final String[] SUFFIXES = {"-\u00fc\u6f22\ud83d\ude80", "", " \"q\"\\/", "@a%b"};
    private static final String[] MORE_CLASSES = {
        "org.apache.rocketmq.common.DataVersion", "org.apache.rocketmq.remoting.protocol.DataVersion", "org.apache.rocketmq.common.TopicConfig",
        "org.apache.rocketmq.common.message.MessageQueue", "org.apache.rocketmq.broker.schedule.DelayOffsetSerializeWrapper",
        "org.apache.rocketmq.store.schedule.DelayOffsetSerializeWrapper",
    };

    private static final class Raw {
        private final String text;

        private Raw(String text) {
            this.text = text;
        }
    }

    private static String base;
    private static int sequence;

    public static void main(String[] args) throws Exception {
        base = args[1];
        write(args[0] + "/bodies.jsonl", bodies());
        write(args[0] + "/body_readings.jsonl", bodyReadings());
        write(args[0] + "/texts.jsonl", texts());
        System.exit(0);
    }

    // ---- bodies ----

    private static List<Map<String, Object>> bodies() throws Exception {
        List<Map<String, Object>> all = new ArrayList<>();
        for (Class<?> type : bodyClasses()) {
            for (String kind : new String[] {"new", "filled"}) {
                sequence = 0;
                Object body = kind.equals("new") ? fresh(type) : filled(type, 0);
                if (body != null) {
                    all.add(body(type.getSimpleName(), kind, body, null));
                }
            }
        }
        cases(all);
        fastjson(all);
        return all;
    }

    private static List<Class<?>> bodyClasses() throws Exception {
        TreeSet<String> jars = new TreeSet<>();
        for (Class<?> one : new Class<?>[] {TopicConfig.class, HeartbeatData.class}) {
            jars.add(one.getProtectionDomain().getCodeSource().getLocation().getPath());
        }
        TreeSet<String> names = new TreeSet<>(Arrays.asList(MORE_CLASSES));
        for (String jar : jars) {
            try (JarFile file = new JarFile(jar)) {
                file.stream().map(entry -> entry.getName().replace('/', '.')).filter(name -> name.matches(
                    "org\\.apache\\.rocketmq\\.(remoting\\.protocol|common\\.protocol|common)\\.(body|heartbeat|route|subscription|statictopic|admin|topic)\\..*\\.class"
                        + "|.*\\.protocol\\.header\\.\\w*Body\\.class")).forEach(name -> names.add(name.substring(0, name.length() - 6)));
            }
        }
        List<Class<?>> found = new ArrayList<>();
        for (String name : names) {
            Class<?> type;
            try {
                type = Class.forName(name);
            } catch (ClassNotFoundException error) {
                continue;
            }
            if (!type.isEnum() && !type.isInterface() && !Modifier.isAbstract(type.getModifiers())
                && !type.getSimpleName().isEmpty() && !type.getSimpleName().matches(".*(Utils|Context|Allocator|Validator|ValidateTopicResult)")) {
                found.add(type);
            }
        }
        return found;
    }

    /** A new instance whose timestamps are TIME; null if there is no constructor without arguments. */
    private static Object fresh(Class<?> type) throws Exception {
        Constructor<?> made;
        try {
            made = type.getDeclaredConstructor();
        } catch (NoSuchMethodException error) {
            return null;
        }
        made.setAccessible(true);
        Object one = made.newInstance();
        stopClocks(one, 0);
        return one;
    }

    private static void stopClocks(Object one, int depth) throws Exception {
        for (Field field : fieldsOf(one.getClass())) {
            Object value = field.get(one);
            if (value instanceof Long && (Long) value > 1_500_000_000_000L) {
                field.set(one, TIME);
            } else if (value != null && depth < 3 && isOurs(value.getClass()) && !value.getClass().isEnum()) {
                stopClocks(value, depth + 1);
            }
        }
    }

    private static boolean isOurs(Class<?> type) {
        return type.getName().startsWith("org.apache.rocketmq.");
    }

    private static List<Field> fieldsOf(Class<?> type) {
        List<Field> fields = new ArrayList<>();
        for (Class<?> at = type; at != null && at != Object.class && isOurs(at); at = at.getSuperclass()) {
            for (Field field : at.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && !Modifier.isTransient(field.getModifiers())) {
                    field.setAccessible(true);
                    fields.add(field);
                }
            }
        }
        return fields;
    }

    private static Object filled(Class<?> type, int depth) throws Exception {
        Object one = fresh(type);
        if (one == null) {
            Constructor<?> made = null;
            for (Constructor<?> other : type.getDeclaredConstructors()) {
                if (!Arrays.asList(other.getParameterTypes()).contains(type) && (made == null || other.getParameterCount() < made.getParameterCount())) {
                    made = other;
                }
            }
            made.setAccessible(true);
            Object[] arguments = new Object[made.getParameterCount()];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = value(made.getGenericParameterTypes()[i], "p" + i, depth + 1);
            }
            one = made.newInstance(arguments);
        }
        for (Field field : fieldsOf(type)) {
            Object value = value(field.getGenericType(), field.getName(), depth + 1);
            if (value != null && (field.get(one) == null || !Modifier.isFinal(field.getModifiers()) || value instanceof Collection || value instanceof Map)) {
                field.set(one, value);
            }
        }
        return one;
    }

    private static Object value(Type declared, String name, int depth) throws Exception {
        Class<?> type = declared instanceof ParameterizedType ? (Class<?>) ((ParameterizedType) declared).getRawType()
            : declared instanceof Class ? (Class<?>) declared : Object.class;
        Type[] inner = declared instanceof ParameterizedType ? ((ParameterizedType) declared).getActualTypeArguments() : new Type[0];
        sequence++;
        if (type == String.class) {
            return name + sequence + SUFFIXES[sequence % SUFFIXES.length];
        } else if (type == int.class || type == Integer.class) {
            return sequence % 3 == 0 ? -sequence : sequence % 3 == 1 ? sequence : Integer.MAX_VALUE - sequence;
        } else if (type == long.class || type == Long.class) {
            return sequence % 3 == 0 ? -sequence : sequence % 3 == 1 ? TIME + sequence : Long.MAX_VALUE - sequence;
        } else if (type == double.class || type == Double.class) {
            return sequence % 2 == 0 ? sequence + 0.1 : sequence * 1e20;
        } else if (type == boolean.class || type == Boolean.class) {
            return true;
        } else if (type == AtomicLong.class) {
            return new AtomicLong(sequence);
        } else if (type == AtomicInteger.class) {
            return new AtomicInteger(sequence);
        } else if (type == byte[].class) {
            return new byte[] {1, 2, (byte) 0xff};
        } else if (type == BitSet.class) {
            BitSet bits = new BitSet();
            for (int bit : new int[] {0, 3, 63, 64, 130}) {
                bits.set(bit);
            }
            return bits;
        } else if (type.isEnum()) {
            return type.getEnumConstants()[sequence % type.getEnumConstants().length];
        } else if (Map.class.isAssignableFrom(type) && inner.length == 2) {
            Map<Object, Object> map = type.isAssignableFrom(LinkedHashMap.class) ? new LinkedHashMap<>()
                : type.isAssignableFrom(TreeMap.class) ? new TreeMap<>() : new ConcurrentHashMap<>();
            for (int i = 0; i < 2; i++) {
                map.put(value(inner[0], name, depth + 1), value(inner[1], name, depth + 1));
            }
            return map;
        } else if (Collection.class.isAssignableFrom(type) && inner.length == 1) {
            Collection<Object> items = type.isAssignableFrom(ArrayList.class) ? new ArrayList<>()
                : type.isAssignableFrom(LinkedHashSet.class) ? new LinkedHashSet<>() : new TreeSet<>();
            for (int i = 0; i < 2; i++) {
                items.add(value(inner[0], name, depth + 1));
            }
            return items;
        } else if (isOurs(type) && !type.isInterface() && !Modifier.isAbstract(type.getModifiers()) && depth < 8) {
            return filled(type, depth);
        }
        return null;
    }

    private static SubscriptionData subscription(String topic, String expression) throws Exception {
        SubscriptionData data = FilterAPI.buildSubscriptionData(topic, expression);
        data.setSubVersion(TIME);
        return data;
    }

    private static ConsumerData consumer(String group, SubscriptionData... subscriptions) {
        ConsumerData data = new ConsumerData();
        data.setGroupName(group);
        data.setConsumeType(ConsumeType.CONSUME_PASSIVELY);
        data.setMessageModel(MessageModel.CLUSTERING);
        data.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        data.setSubscriptionDataSet(new LinkedHashSet<>(Arrays.asList(subscriptions)));
        return data;
    }

    private static HeartbeatData heartbeat(ConsumerData... consumers) {
        HeartbeatData data = new HeartbeatData();
        data.setClientID("10.0.0.1@4242#99");
        ProducerData producer = new ProducerData();
        producer.setGroupName("CLIENT_INNER_PRODUCER");
        data.setProducerDataSet(new LinkedHashSet<>(Collections.singletonList(producer)));
        data.setConsumerDataSet(new LinkedHashSet<>(Arrays.asList(consumers)));
        return data;
    }

    private static void cases(List<Map<String, Object>> all) throws Exception {
        all.add(body("HeartbeatData", "producer", heartbeat(), null));
        all.add(body("HeartbeatData", "push consumer", heartbeat(consumer("g1", subscription("TopicA", "TagA || TagB"), subscription("%RETRY%g1", "*"))), null));
        SubscriptionData shared = subscription("TopicA", "TagA");
        all.add(body("HeartbeatData", "shared subscription", heartbeat(consumer("g1", shared), consumer("g2", subscription("%RETRY%g2", "*"), shared)), null));

        TopicRouteData route = new TopicRouteData();
        List<BrokerData> brokers = new ArrayList<>();
        List<QueueData> queues = new ArrayList<>();
        for (String name : new String[] {"broker-a", "broker-\u00fc\u6f22"}) {
            java.util.HashMap<Long, String> addresses = new java.util.HashMap<>();
            addresses.put(0L, "127.0.0.1:10911");
            addresses.put(1L, "127.0.0.1:10921");
            brokers.add(new BrokerData("DefaultCluster", name, addresses));
            QueueData queue = new QueueData();
            queue.setBrokerName(name);
            queue.setReadQueueNums(4);
            queue.setWriteQueueNums(8);
            queue.setPerm(6);
            queues.add(queue);
        }
        route.setBrokerDatas(brokers);
        route.setQueueDatas(queues);
        route.setFilterServerTable(new java.util.HashMap<>());
        all.add(body("TopicRouteData", "numbers as keys", route, null));
        // as the NameServer answers acceptStandardJsonOnly=true and versions from 4.9.4
        all.add(body("TopicRouteData", "standard JSON", route, route.encode(SerializerFeature.BrowserCompatible, SerializerFeature.QuoteFieldNames,
            SerializerFeature.SkipTransientField, SerializerFeature.MapSortField)));

        DataVersion version = new DataVersion();
        version.setTimestamp(TIME);
        version.setCounter(new AtomicLong(3));
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        topics.put("TopicA", new TopicConfig("TopicA", 4, 8, 6));
        topics.put("%RETRY%g1", new TopicConfig("%RETRY%g1", 1, 1, 6));
        topics.get("TopicA").setOrder(true);
        topics.get("TopicA").setAttributes(new LinkedHashMap<>(Collections.singletonMap("message.type", "FIFO"))); // 5.x
        TopicConfigSerializeWrapper wrapper = (TopicConfigSerializeWrapper) fresh(new RegisterBrokerBody().getTopicConfigSerializeWrapper().getClass());
        wrapper.setDataVersion(version);
        wrapper.setTopicConfigTable(topics);
        all.add(body(wrapper.getClass().getSimpleName(), "two topics", wrapper, null));
        RegisterBrokerBody registration = new RegisterBrokerBody();
        registration.setTopicConfigSerializeWrapper(null); // 5.x
        java.lang.reflect.Method setter = null;
        for (java.lang.reflect.Method one : RegisterBrokerBody.class.getMethods()) {
            setter = one.getName().equals("setTopicConfigSerializeWrapper") ? one : setter;
        }
        setter.invoke(registration, wrapper);
        registration.setFilterServerList(new ArrayList<>(Collections.singletonList("127.0.0.1:7000")));
        all.add(body("RegisterBrokerBody", "plain", registration, registration.encode(false)));
        Map<String, Object> compressed = body("RegisterBrokerBody", "compressed", registration, registration.encode(true));
        compressed.keySet().removeAll(Arrays.asList("text", "reads_own", "reads_standard"));
        byte[] deflated = registration.encode(true);
        compressed.put("deflated", hex(deflated));
        compressed.put("inflated", hex(new InflaterInputStream(new ByteArrayInputStream(deflated)).readAllBytes()));
        all.add(compressed);

        ConsumerOffsetManager offsets = new ConsumerOffsetManager();
        for (Field field : fieldsOf(ConsumerOffsetManager.class)) {
            if (field.getName().equals("offsetTable")) {
                ConcurrentMap<Integer, Long> table = new ConcurrentHashMap<>();
                table.put(0, 11L);
                table.put(1, 12L);
                ConcurrentMap<String, ConcurrentMap<Integer, Long>> tables = new ConcurrentHashMap<>();
                tables.put("TopicA@g1", table);
                field.set(offsets, tables);
            }
        }
        stopClocks(offsets, 0);
        all.add(body("ConsumerOffsetManager", "as the broker answers 43", offsets, offsets.encode().getBytes(StandardCharsets.UTF_8)));

        ResetOffsetBody reset = new ResetOffsetBody();
        Map<MessageQueue, Long> table = new LinkedHashMap<>();
        table.put(new MessageQueue("TopicA", "broker-a", 0), 6L);
        table.put(new MessageQueue("TopicA", "broker-a", 1), -1L);
        reset.setOffsetTable(table);
        all.add(body("ResetOffsetBody", "two queues", reset, null));
    }

    /** Objects that are no bodies of RocketMQ, for the rules of fastjson's writer. */
    private static void fastjson(List<Map<String, Object>> all) {
        MessageQueue queue = new MessageQueue("T", "b", 0);
        Map<String, Object> tree = new LinkedHashMap<>();
        tree.put("first", queue);
        tree.put("list", new ArrayList<>(Arrays.asList(queue, Collections.singletonMap("in.ner", queue))));
        all.add(body("fastjson", "one object three times", tree, null));
        Map<String, Object> odd = new LinkedHashMap<>();
        odd.put("a.b", queue);
        odd.put("c", queue);
        all.add(body("fastjson", "reference to a name with a dot", odd, null));
        List<Object> list = new ArrayList<>(Arrays.asList(queue, queue));
        all.add(body("fastjson", "list with one object twice", list, null));
        List<Object> inner = new ArrayList<>(Collections.singletonList(queue));
        all.add(body("fastjson", "list with one list twice", new ArrayList<>(Arrays.asList(inner, inner, Collections.emptyList())), null));
        Map<MessageQueue, Object> keyed = new LinkedHashMap<>();
        keyed.put(queue, queue);
        keyed.put(new MessageQueue("T", "b", 1), queue);
        all.add(body("fastjson", "a key that is a value too", keyed, null));
        Map<Object, Object> keys = new LinkedHashMap<>();
        for (Object key : new Object[] {1, -2L, true, 1.5, "s", "1", "\u00fc \"", new BigDecimal("1.50"), 'c'}) {
            keys.put(key, 0);
        }
        all.add(body("fastjson", "kinds of keys", keys, null));
        List<Object> values = new ArrayList<>(Arrays.asList(1, -1L, Long.MAX_VALUE, Long.MIN_VALUE, 1.0, 0.1, 1e20, 1e-7, -0.0, Double.MAX_VALUE,
            1.5f, new BigDecimal("1.50"), true, null, 'c', new byte[] {0, (byte) 0xff}, new int[] {1, 2}, ConsumeType.CONSUME_PASSIVELY, new AtomicLong(5)));
        all.add(body("fastjson", "kinds of values", values, null));
        all.add(body("fastjson", "numbers that JSON lacks", new ArrayList<>(Arrays.asList(Double.NaN, Double.POSITIVE_INFINITY, Float.NaN)), null));
        StringBuilder text = new StringBuilder();
        for (char one = 0; one < 0x180; one++) {
            text.append(one);
        }
        text.append("\u2028\u2029\ufeff\uffff\u6f22\ud83d\ude80</script>");
        all.add(body("fastjson", "characters", new ArrayList<>(Collections.singletonList(text.toString())), null));
        Map<String, Object> nulls = new LinkedHashMap<>();
        nulls.put("null", null);
        nulls.put("empty", new ArrayList<>());
        all.add(body("fastjson", "null member of a map", nulls, null));
    }

    /** A line with the body in RocketMQ's bytes and as standard JSON: keys that are objects are strings of JSON there. */
    private static Map<String, Object> body(String type, String name, Object body, byte[] encoded) {
        byte[] bytes = encoded == null ? RemotingSerializable.encode(body) : encoded;
        String standard = standard(body);
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("class", type);
        line.put("name", name);
        line.put("values", new Raw(standard));
        line.put("text", new String(bytes, StandardCharsets.UTF_8));
        line.put("reads_own", reads(bytes, body));
        line.put("reads_standard", reads(standard.getBytes(StandardCharsets.UTF_8), body));
        return line;
    }

    private static String standard(Object body) {
        return JSON.toJSONString(body, SerializerFeature.WriteNonStringKeyAsString, SerializerFeature.DisableCircularReferenceDetect);
    }

    private static String reads(byte[] bytes, Object body) {
        try {
            Object read = RemotingSerializable.decode(bytes, body.getClass());
            return sorted(JSON.parse(standard(read))).equals(sorted(JSON.parse(standard(body)))) ? "same" : "differs";
        } catch (Throwable error) {
            return error.getClass().getSimpleName();
        }
    }

    /** Parsed JSON as text in one order of members and items, as sets have none. */
    private static String sorted(Object value) {
        if (value instanceof Map) {
            TreeMap<String, String> members = new TreeMap<>();
            ((Map<?, ?>) value).forEach((name, member) -> members.put(String.valueOf(name), sorted(member)));
            return members.toString();
        } else if (value instanceof List) {
            List<String> items = new ArrayList<>();
            ((List<?>) value).forEach(item -> items.add(sorted(item)));
            Collections.sort(items);
            return items.toString();
        }
        return String.valueOf(value);
    }

    // ---- what RocketMQ reads ----

    private static List<Map<String, Object>> bodyReadings() throws Exception {
        List<Map<String, Object>> all = new ArrayList<>();
        String queue = "{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}";
        String other = "{\"brokerName\":\"b\",\"queueId\":1,\"topic\":\"T\"}";
        String asText = JSON.toJSONString(queue);
        read(all, ResetOffsetBody.class,
            "{\"offsetTable\":{" + queue + ":5," + other + ":6}}", "{\"offsetTable\":{" + asText + ":5}}", "{ \"offsetTable\" : { " + queue + " : 5 , " + other + " : 6 } }",
            "{\"offsetTable\":[[" + queue + ",5]]}", "{\"offsetTable\":{{\"topic\":\"T\"}:5}}", "{\"offsetTable\":{{}:5}}", "{\"offsetTable\":{{\"queueId\":\"7\",\"x\":[]}:\"5\"}}",
            "{\"offsetTable\":{" + queue + ":5," + queue + ":6}}", "{\"offsetTable\":{}}", "{\"offsetTable\":null}", "{}", "{\"offsetTable\":{" + queue + ":null}}",
            "{\"offsetTable\":{{queueId:1,topic:'T'}:5}}", "{\"offsetTable\":{" + queue + ":5,}}", "{\"offsetTable\":{\"T\":5}}", "{\"offsetTable\":{" + queue + ":5");
        String start = "{\"brokerDatas\":[{\"brokerAddrs\":";
        String end = ",\"brokerName\":\"b\",\"cluster\":\"c\"}]}";
        read(all, TopicRouteData.class,
            start + "{0:\"x:1\",1:\"x:2\"}" + end, start + "{\"0\":\"x:1\"}" + end, start + "{'0':'x:1'}" + end, start + "{ 0 : \"x:1\" , 1 : \"x:2\" }" + end,
            start + "{-1:\"x:1\"}" + end, start + "{a:\"x:1\"}" + end, start + "{\"a\":\"x:1\"}" + end, start + "{9223372036854775808:\"x\"}" + end, start + "{0:5}" + end,
            start + "{}" + end, start + "null" + end, start + "[]" + end, "{\"queueDatas\":[{\"perm\":\"6\",\"readQueueNums\":4.0}]}", "{\"queueDatas\":[{\"perm\":null}]}",
            "{\"queueDatas\":[null]}", "{\"queueDatas\":{}}", "{\"unknown\":{\"a\":[{0:1}]},\"orderTopicConf\":\"x\"}", "{orderTopicConf:\"x\"}", "{'orderTopicConf':'it\\'s'}",
            "{\"ORDERTOPICCONF\":\"x\"}", "{\"order_topic_conf\":\"x\"}", "{\"orderTopicConf\":5}", "{\"orderTopicConf\":true}", "{\"orderTopicConf\":\"a\",\"orderTopicConf\":\"b\"}",
            "/* c */{\"orderTopicConf\":\"x\"}", "{\"orderTopicConf\":\"x\"} ", "{\"orderTopicConf\":\"x\"}y", "\ufeff{\"orderTopicConf\":\"x\"}", "", " ", "null", "[]", "5", "{\"orderTopicConf\":\"\\u0041\\x42\\0\"}",
            "{\"orderTopicConf\":undefined}", "{\"orderTopicConf\":NaN}", "{,\"orderTopicConf\":\"x\"}", "{\"orderTopicConf\":\"x\",,}");
        String sub = "{\"topic\":\"T\",\"subString\":\"A\",\"tagsSet\":[\"A\"],\"codeSet\":[65],\"subVersion\":1}";
        String group = "{\"groupName\":\"g\",\"subscriptionDataSet\":[" + sub + "]}";
        read(all, HeartbeatData.class,
            "{\"clientID\":\"c\",\"consumerDataSet\":[" + group + ",{\"groupName\":\"h\",\"subscriptionDataSet\":[{\"$ref\":\"$.consumerDataSet[0].subscriptionDataSet[0]\"}]}]}",
            "{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"h\",\"subscriptionDataSet\":[{\"$ref\":\"$.consumerDataSet[1].subscriptionDataSet[0]\"}]}," + group + "]}",
            "{\"consumerDataSet\":[{\"groupName\":\"h\",\"subscriptionDataSet\":[{\"$ref\":\"$.nothing\"}]}]}",
            "{\"consumerDataSet\":[{\"groupName\":\"h\",\"subscriptionDataSet\":{\"$ref\":\"$.consumerDataSet[1].subscriptionDataSet\"}}," + group + "]}",
            "{\"consumerDataSet\":[" + group + "],\"producerDataSet\":[{\"groupName\":\"p\"},{\"$ref\":\"$.producerDataSet[0]\"}]}",
            "{\"consumerDataSet\":[{\"groupName\":\"g\",\"subscriptionDataSet\":[{\"topic\":\"T\",\"codeSet\":[\"65\",66.0,null]}]}]}",
            "{\"consumerDataSet\":[{\"groupName\":\"g\",\"consumeType\":\"CONSUME_SIDEWAYS\",\"messageModel\":\"x\",\"consumeFromWhere\":\"\"}]}",
            "{\"consumerDataSet\":[{\"groupName\":\"g\",\"consumeType\":1,\"messageModel\":0,\"unitMode\":\"true\"}]}",
            "{\"consumerDataSet\":[{\"groupName\":\"g\",\"consumeType\":null,\"unitMode\":1,\"subscriptionDataSet\":null}]}",
            "{\"consumerDataSet\":[],\"producerDataSet\":[]}", "{\"consumerDataSet\":null,\"clientID\":null}", "{\"clientID\":7}",
            "{\"consumerDataSet\":[{\"groupName\":\"g\",\"subscriptionDataSet\":[{\"topic\":\"T\",\"tagsSet\":[\"B\",\"A\",\"A\"],\"subVersion\":\"5\"}]}]}");
        return all;
    }

    private static void read(List<Map<String, Object>> all, Class<?> type, String... texts) {
        for (String text : texts) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("class", type.getSimpleName());
            line.put("text", text);
            try {
                Object body = RemotingSerializable.decode(text.getBytes(StandardCharsets.UTF_8), type);
                if (body instanceof HeartbeatData) {
                    sortGroups((HeartbeatData) body);
                }
                line.put("read", new Raw(standard(body).replaceAll("(\"subVersion\":)1[7-9]\\d{11}", "$1" + TIME)));
            } catch (Throwable error) {
                line.put("refused", error.getClass().getSimpleName());
            }
            all.add(line);
        }
    }

    /** Puts the groups in order: their sets are ordered by addresses of objects. */
    private static void sortGroups(HeartbeatData data) {
        if (data.getConsumerDataSet() != null) {
            List<ConsumerData> groups = new ArrayList<>(data.getConsumerDataSet());
            groups.sort(java.util.Comparator.comparing(ConsumerData::getGroupName));
            data.setConsumerDataSet(new LinkedHashSet<>(groups));
        }
    }

    // ---- texts and batch bodies ----

    private static List<Map<String, Object>> texts() throws Exception {
        List<Map<String, Object>> all = new ArrayList<>();
        String unicode = "\u00fc\u6f22\ud83d\ude80";
        String[][] properties = {{}, {"KEYS", "k"}, {"KEYS", "k1 k2", "TAGS", "TagA", "WAIT", "true"}, {unicode, unicode + "\"\\"}, {"empty", ""}, {"", "v"}, {"a", "b\u0001c"}};
        for (String[] one : properties) {
            Map<String, String> map = new LinkedHashMap<>();
            for (int i = 0; i < one.length; i += 2) {
                map.put(one[i], one[i + 1]);
            }
            String text = MessageDecoder.messageProperties2String(map);
            all.add(line("properties", "given", map, "result", text));
        }
        for (String text : new String[] {"", "a\u0001b", "a\u0001b\u0002", "a\u0001b\u0002c\u0001d", "a\u0001\u0002c\u0001d\u0002", "\u0001b\u0002", "ab\u0002c\u0001d\u0002", "a\u0001b\u0001c\u0002",
            "\u0002\u0002a\u0001b\u0002\u0002", "a\u00011\u0002a\u00012\u0002", "a\u0001", "\u0001", "x", unicode + "\u0001" + unicode + "\u0002"}) {
            all.add(line("properties_reading", "given", text, "result", MessageDecoder.string2messageProperties(text)));
        }
        all.add(line("properties_reading", "given", null, "result", MessageDecoder.string2messageProperties(null)));
        batches(all, unicode);
        for (String host : new String[] {"127.0.0.1", "255.255.255.255", "10.0.0.200", "::1", "2001:db8::ff00:42:8329"}) {
            for (long offset : new long[] {0, 1_234_567_890_123L, Long.MAX_VALUE, -1}) {
                int port = offset == 0 ? 10911 : 65535;
                Map<String, Object> given = new LinkedHashMap<>();
                given.put("host", InetAddress.getByName(host).getHostAddress());
                given.put("port", port);
                given.put("offset", offset);
                String id = MessageDecoder.createMessageId(new InetSocketAddress(InetAddress.getByName(host), port), offset);
                all.add(line("offset_id", "given", given, "result", id));
            }
        }
        for (String id : new String[] {"7F00000100002A9F0000000000000000", "7f00000100002a9f00000000000000ff", "", "7F", "7F00000100002A9F00000000000000", "7F00000100002A9F000000000000000000", "ZF00000100002A9F0000000000000000",
            "2A1B0C0D00002A9F00000000000000FF00002A9F00000000000000FF"}) {
            Map<String, Object> line = line("offset_id_reading", "given", id);
            try {
                MessageId read = MessageDecoder.decodeMessageId(id);
                Map<String, Object> found = new LinkedHashMap<>();
                found.put("host", ((InetSocketAddress) read.getAddress()).getAddress().getHostAddress());
                found.put("port", ((InetSocketAddress) read.getAddress()).getPort());
                found.put("offset", read.getOffset());
                line.put("result", found);
            } catch (Throwable error) {
                line.put("refused", error.getClass().getSimpleName());
            }
            all.add(line);
        }
        for (String id : new String[] {"7F000001109218B4AAC2123456780001", "0A0000C8FFFF18B4AAC200000000FFFF", "20010DB8000000000000FF0000428329109218B4AAC2123456780001"}) {
            Map<String, Object> found = new LinkedHashMap<>();
            found.put("ip", hex(MessageClientIDSetter.getIPFromID(id)));
            found.put("pid", MessageClientIDSetter.getPidFromID(id));
            all.add(line("unique_id_reading", "given", id, "result", found));
        }
        for (String tags : new String[] {null, "", "TagA", "TagB", "*", "a", unicode, "polygenelubricants", "a-very-long-tag-with-many-characters-0123456789", "TagA || TagB", " TagA "}) {
            all.add(line("tag_code", "given", tags, "result", MessageExtBrokerInner.tagsString2tagsCode(null, tags)));
        }
        for (String expression : new String[] {null, "", "*", "TagA", "TagA||TagB", "TagA || TagB", " TagA  ||  TagB ", "TagA|TagB", "||", " || ", "TagA||", "||TagA", "TagA||TagA", "TagA || *", "* ", " ", unicode + "||b",
            "TagB||TagA||TagC", "Aa||BB", "TagA||||TagB", "|| TagA ||| TagB"}) {
            Map<String, Object> line = line("subscription", "given", expression);
            try {
                line.put("result", new Raw(standard(subscription("TopicA", expression))));
            } catch (Throwable error) {
                line.put("refused", error.getClass().getSimpleName());
            }
            all.add(line);
        }
        for (String[] one : new String[][] {{"TagA", null}, {"TagA", "TAG"}, {"TagA", "tag"}, {null, "TAG"}, {"a > 5", "SQL92"}, {"", "SQL92"}, {null, "SQL92"}, {"x", "OTHER"}}) {
            Map<String, Object> line = line("typed_subscription", "given", Arrays.asList(one));
            try {
                SubscriptionData data = FilterAPI.build("TopicA", one[0], one[1]);
                data.setSubVersion(TIME);
                line.put("result", new Raw(standard(data)));
            } catch (Throwable error) {
                line.put("refused", error.getClass().getSimpleName());
            }
            all.add(line);
        }
        for (String text : new String[] {"", "a", "The quick brown fox", unicode}) {
            all.add(line("body_crc", "given", hex(text.getBytes(StandardCharsets.UTF_8)), "result", UtilAll.crc32(text.getBytes(StandardCharsets.UTF_8))));
        }
        signatures(all, unicode);
        for (Object[] one : new Object[][] {{"TopicA", 4, 8, 6}, {"%RETRY%g", 1, 1, 6}}) {
            TopicConfig config = new TopicConfig((String) one[0], (Integer) one[1], (Integer) one[2], (Integer) one[3]);
            all.add(line("topic_config", "given", new Raw(standard(config)), "result", config.encode()));
            config.setAttributes(new LinkedHashMap<>(Collections.singletonMap("message.type", "FIFO"))); // 5.x
            all.add(line("topic_config", "given", new Raw(standard(config)), "result", config.encode())); // 5.x
        }
        char[] many = new char[127];
        Arrays.fill(many, 't');
        for (String topic : new String[] {"TopicA", "", " ", "a-b_c%d|1", "a.b", "a b", "a/b", unicode, "%RETRY%g", "%DLQ%g", "TBW102", "a\n", "A1$", "a@b", new String(many), new String(many) + "t"}) {
            all.add(line("illegal_name", "given", topic, "result", TopicValidator.isTopicOrGroupIllegal(topic)));
        }
        all.add(line("system_topics", "given", null, "result", new ArrayList<>(new TreeSet<>(TopicValidator.getSystemTopicSet()))));
        all.add(line("not_allowed_send_topics", "given", null, "result", new ArrayList<>(new TreeSet<>(TopicValidator.getNotAllowedSendTopicSet()))));
        pop(all); // 5.x
        return all;
    }

    private static void batches(List<Map<String, Object>> all, String unicode) {
        List<List<Message>> batches = new ArrayList<>();
        Message plain = new Message("T", "TagA", "k", "hi".getBytes(StandardCharsets.UTF_8));
        Message bare = new Message("T", new byte[0]);
        bare.setFlag(-7);
        Message full = new Message("T", "Tag" + unicode, "k1 k2", 5, (unicode + "\u0000").getBytes(StandardCharsets.UTF_8), false);
        full.putUserProperty("user", unicode);
        MessageAccessor.putProperty(full, "UNIQ_KEY", "7F000001109218B4AAC2123456780001");
        batches.add(Collections.singletonList(plain));
        batches.add(Collections.singletonList(bare));
        batches.add(Arrays.asList(plain, bare, full));
        batches.add(Collections.emptyList());
        for (List<Message> batch : batches) {
            List<Object> messages = new ArrayList<>();
            for (Message message : batch) {
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("flag", message.getFlag());
                one.put("body", hex(message.getBody()));
                one.put("properties", message.getProperties());
                messages.add(one);
            }
            all.add(line("batch", "given", messages, "result", hex(MessageDecoder.encodeMessages(batch))));
        }
    }

    private static void signatures(List<Map<String, Object>> all, String unicode) {
        String[][] cases = {{"12345678", "7879", "AccessKey", "rocketmq2", "topic", "TopicA"}, {"12345678", null, "AccessKey", "rocketmq2"}, {"12345678", "7879"},
            {"key-" + unicode, "00ff", "b", "2", "a", "1", "B", "3", "_", "4", "\u00fc", unicode, "AccessKey", "k"}, {"12345678", null, "AccessKey", "u", "Signature", "old", "e", "", "SecurityToken", "t"}};
        for (String[] one : cases) {
            SortedMap<String, String> fields = new TreeMap<>();
            for (int i = 2; i < one.length; i += 2) {
                fields.put(one[i], one[i + 1]);
            }
            RemotingCommand command = RemotingCommand.createRequestCommand(105, null);
            command.setBody(one[1] == null ? null : bytes(one[1]));
            byte[] content = AclUtils.combineRequestContent(command, fields);
            Map<String, Object> given = new LinkedHashMap<>();
            given.put("secret", one[0]);
            given.put("body", one[1]);
            given.put("ext", new LinkedHashMap<>(fields));
            Map<String, Object> result = new LinkedHashMap<>();
            result.put("content", hex(content));
            result.put("signature", AclUtils.calSignature(content, one[0]));
            all.add(line("signature", "given", given, "result", result));
        }
    }

    private static void pop(List<Map<String, Object>> all) throws Exception { // 5.x
        for (String topic : new String[] {"TopicA", "%RETRY%g_TopicA", "%RETRY%g+TopicA"}) { // 5.x
            String info = ExtraInfoUtil.buildExtraInfo(100, TIME, 60000, 3, topic, "broker a", 7); // 5.x
            String longer = ExtraInfoUtil.buildExtraInfo(-1, TIME, 0, 999, topic, "broker-a", 0, 12345678901L); // 5.x
            all.add(line("pop_extra_info", "given", Arrays.asList(100, TIME, 60000, 3, topic, "broker a", 7), "result", info)); // 5.x
            all.add(line("pop_extra_info", "given", Arrays.asList(-1, TIME, 0, 999, topic, "broker-a", 0, 12345678901L), "result", longer)); // 5.x
            StringBuilder start = new StringBuilder(); // 5.x
            ExtraInfoUtil.buildStartOffsetInfo(start, topic, 0, 5); // 5.x
            ExtraInfoUtil.buildStartOffsetInfo(start, topic, 1, 6); // 5.x
            all.add(line("pop_start_offset_info", "given", Arrays.asList(topic, Arrays.asList(0, 5), Arrays.asList(1, 6)), "result", start.toString())); // 5.x
            StringBuilder offsets = new StringBuilder(); // 5.x
            ExtraInfoUtil.buildMsgOffsetInfo(offsets, topic, 0, Arrays.asList(5L)); // 5.x
            ExtraInfoUtil.buildMsgOffsetInfo(offsets, topic, 1, Arrays.asList(6L, 7L, 9L)); // 5.x
            all.add(line("pop_msg_offset_info", "given", Arrays.asList(topic, Arrays.asList(0, Arrays.asList(5)), Arrays.asList(1, Arrays.asList(6, 7, 9))), "result", offsets.toString())); // 5.x
            StringBuilder orders = new StringBuilder(); // 5.x
            ExtraInfoUtil.buildQueueIdOrderCountInfo(orders, topic, 0, 2); // 5.x
            ExtraInfoUtil.buildQueueOffsetOrderCountInfo(orders, topic, 1, 6, 3); // 5.x
            all.add(line("pop_order_count_info", "given", Arrays.asList(topic, Arrays.asList(0, 2), Arrays.asList(1, 6, 3)), "result", orders.toString())); // 5.x
            all.add(line("pop_real_topic", "given", Arrays.asList(info, "TopicA", "g"), "result", ExtraInfoUtil.getRealTopic(ExtraInfoUtil.split(info), "TopicA", "g"))); // 5.x
            all.add(line("pop_normal_topic", "given", Arrays.asList(topic, "g"), "result", KeyBuilder.parseNormalTopic(topic, "g"))); // 5.x
        } // 5.x
        all.add(line("pop_retry_topic", "given", Arrays.asList("TopicA", "g"), "result", Arrays.asList(KeyBuilder.buildPopRetryTopicV1("TopicA", "g"), KeyBuilder.buildPopRetryTopicV2("TopicA", "g")))); // 5.x
        String handle = RecallMessageHandle.HandleV1.buildHandle("TopicA", "broker-a", String.valueOf(TIME), "7F000001109218B4AAC2123456780001"); // 5.x
        all.add(line("recall_handle", "given", Arrays.asList("TopicA", "broker-a", String.valueOf(TIME), "7F000001109218B4AAC2123456780001"), "result", handle)); // 5.x
    } // 5.x

    private static Map<String, Object> line(String kind, Object... rest) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("kind", kind);
        for (int i = 0; i < rest.length; i += 2) {
            line.put((String) rest[i], rest[i + 1]);
        }
        return line;
    }

    private static void write(String path, List<Map<String, Object>> lines) throws Exception {
        try (PrintWriter out = new PrintWriter(path, "UTF-8")) {
            for (Map<String, Object> line : lines) {
                out.print(json(line) + "\n");
            }
        }
    }

    private static String json(Object value) {
        if (value instanceof Raw) {
            return ((Raw) value).text;
        } else if (value instanceof Map) {
            List<String> members = new ArrayList<>();
            ((Map<?, ?>) value).forEach((name, member) -> members.add(json(name) + ":" + json(member)));
            return "{" + String.join(",", members) + "}";
        } else if (value instanceof List) {
            List<String> items = new ArrayList<>();
            ((List<?>) value).forEach(item -> items.add(json(item)));
            return "[" + String.join(",", items) + "]";
        } else if (value instanceof String) {
            StringBuilder text = new StringBuilder("\"");
            for (char one : ((String) value).toCharArray()) {
                text.append(one == '"' || one == '\\' ? "\\" + one : one < ' ' || one > '~' ? String.format("\\u%04x", (int) one) : one);
            }
            return text.append('"').toString();
        }
        return Objects.toString(value);
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return found;
    }
}
