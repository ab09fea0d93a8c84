import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.consumer.listener.ConsumeReturnType;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceTransferBean;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.message.MessageType;

/** Prints the rows of trace that Java's client encodes: two sends, with and without tags and keys, an end, a recall, and rows of consumers. */
public class TraceRows {
    public static void main(String[] args) throws Exception {
        print(context(TraceType.Pub, true, "tag", "k1 k2", MessageType.Normal_Msg));
        print(context(TraceType.Pub, false, null, null, MessageType.Delay_Msg));
        print(context(TraceType.EndTransaction, true, "tag", "k", MessageType.Trans_msg_Commit));
        print(context(TraceType.Recall, true, null, null, MessageType.Normal_Msg));
        print(context(TraceType.Recall, false, null, null, MessageType.Normal_Msg));
        print(context(TraceType.SubBefore, true, "tag", "k1 k2", MessageType.Normal_Msg));
        print(context(TraceType.SubBefore, true, null, null, MessageType.Normal_Msg));
        print(context(TraceType.SubAfter, true, "tag", "k1 k2", MessageType.Normal_Msg));
        print(context(TraceType.SubAfter, false, null, null, MessageType.Normal_Msg));
    }

    private static TraceContext context(TraceType type, boolean success, String tags, String keys, MessageType kind) {
        TraceContext context = new TraceContext();
        context.setTraceType(type);
        context.setTimeStamp(1000);
        context.setRegionId("DefaultRegion");
        context.setGroupName("g");
        context.setCostTime(7);
        context.setSuccess(success);
        TraceBean bean = new TraceBean();
        bean.setTopic("t");
        bean.setMsgId("UK");
        bean.setTags(tags);
        bean.setKeys(keys);
        bean.setStoreHost("127.0.0.1:10911");
        bean.setBodyLength(3);
        bean.setMsgType(kind);
        bean.setOffsetMsgId("OFF");
        bean.setTransactionId("TX");
        bean.setTransactionState(LocalTransactionState.COMMIT_MESSAGE);
        bean.setFromTransactionCheck(true);
        bean.setRetryTimes(2);
        context.setRequestId("REQ");
        context.setAccessChannel(AccessChannel.LOCAL);
        if (!success) {
            context.setContextCode(ConsumeReturnType.FAILED.ordinal());
        }
        context.setTraceBeans(new ArrayList<>(List.of(bean)));
        return context;
    }

    private static void print(TraceContext context) throws Exception {
        TraceTransferBean row = TraceDataEncoder.encoderFromContextBean(context);
        System.out.println("row " + HexFormat.of().formatHex(row.getTransData().getBytes("UTF-8")) + " " + new java.util.TreeSet<>(row.getTransKey()));
    }
}
