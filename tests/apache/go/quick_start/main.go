// Command quickstart runs families of Apache's Go client against the NameServer args[1]; args[2:] name families, which
// run side by side. It prints one line for each: `ok NAME` or `not ok NAME why`.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// A retry topic joins when the client next looks for routes: every 30 s. A consumer's queues are shared out every 20 s.
const patience = 120 * time.Second

var nameServer string

type family func(topic string) error

var families = map[string]family{
	"sync":         syncSends,
	"async":        asyncSends,
	"oneway":       oneWay,
	"batch":        batch,
	"selector":     selector,
	"delay":        delay,
	"timer":        timer,
	"push":         func(topic string) error { return push(topic, consumer.Clustering, everything(), 20) },
	"tags":         func(topic string) error { return push(topic, consumer.Clustering, tagged("TagA || TagC"), 10) },
	"broadcasting": func(topic string) error { return push(topic, consumer.BroadCasting, everything(), 20) },
	"orderly":      orderly,
	"sql":          sql,
	"retry":        retry,
	"dlq":          deadLetters,
	"request":      requestReply,
	"lite":         lite,
	"trace":        trace,
	"commit":       commitOrRollBack,
	"check":        checked,
}

func main() {
	rlog.SetLogLevel("error")
	nameServer = os.Args[1]
	var running sync.WaitGroup
	var printing sync.Mutex
	for _, name := range os.Args[2:] {
		running.Add(1)
		go func(name string) {
			defer running.Done()
			err := families[name]("Go_" + name)
			printing.Lock()
			defer printing.Unlock()
			if err != nil {
				fmt.Printf("not ok %s %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
			} else {
				fmt.Printf("ok %s\n", name)
			}
		}(name)
	}
	running.Wait()
}

func everything() consumer.MessageSelector { return consumer.MessageSelector{} }

func tagged(tags string) consumer.MessageSelector {
	return consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
}

func newProducer(topic string, options ...producer.Option) (rocketmq.Producer, error) {
	options = append(options,
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		producer.WithGroupName("producer_"+topic),
		producer.WithInstanceName("producer_"+topic),
		producer.WithSendMsgTimeout(20*time.Second),
	)
	made, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func newConsumer(group string, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	options = append([]consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		consumer.WithGroupName(group),
		consumer.WithInstance(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
	return rocketmq.NewPushConsumer(options...)
}

func message(topic string, number int) *primitive.Message {
	made := primitive.NewMessage(topic, []byte(fmt.Sprintf("message %d", number)))
	made.WithTag("Tag" + string("ABCD"[number%4]))
	made.WithKeys([]string{fmt.Sprintf("key%d", number)})
	made.WithProperty("a", fmt.Sprint(number))
	return made
}

func send(topic string, from, to int) error {
	made, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	for number := from; number < to; number++ {
		result, err := made.SendSync(context.Background(), message(topic, number))
		if err != nil {
			return err
		}
		if result.Status != primitive.SendOK {
			return fmt.Errorf("%v", result)
		}
	}
	return nil
}

// found counts different texts.
type found struct {
	lock  sync.Mutex
	texts map[string]bool
}

func (f *found) add(text string) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.texts == nil {
		f.texts = map[string]bool{}
	}
	f.texts[text] = true
}

func (f *found) count() int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return len(f.texts)
}

func (f *found) await(count int) error {
	for end := time.Now().Add(patience); f.count() < count; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d arrived", f.count(), count)
		}
	}
	return nil
}

func read(topic string, count int) error {
	var bodies found
	return readInto(&bodies, topic, count, 0)
}

// readInto adds the bodies of a topic until there are count of them, and of those that come within settle after that.
func readInto(bodies *found, topic string, count int, settle time.Duration, options ...consumer.Option) error {
	reader, err := newConsumer("group_"+topic, options...)
	if err != nil {
		return err
	}
	err = reader.Subscribe(topic, everything(),
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				bodies.add(string(one.Body))
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	defer reader.Shutdown()
	err = bodies.await(count)
	time.Sleep(settle)
	return err
}

func syncSends(topic string) error {
	if err := send(topic, 0, 20); err != nil {
		return err
	}
	made, err := newProducer(topic + "_large")
	if err != nil {
		return err
	}
	defer made.Shutdown()
	_, err = made.SendSync(context.Background(), primitive.NewMessage(topic, make([]byte, 1<<20)))
	return err
}

func asyncSends(topic string) error {
	made, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	answers := make(chan error, 100)
	for number := 0; number < 100; number++ {
		err = made.SendAsync(context.Background(),
			func(_ context.Context, _ *primitive.SendResult, err error) { answers <- err }, message(topic, number))
		if err != nil {
			return err
		}
	}
	for number := 0; number < 100; number++ {
		select {
		case err = <-answers:
			if err != nil {
				return err
			}
		case <-time.After(patience):
			return fmt.Errorf("%d of 100 were answered", number)
		}
	}
	return nil
}

func oneWay(topic string) error {
	made, err := newProducer(topic)
	if err != nil {
		return err
	}
	if _, err = made.SendSync(context.Background(), message(topic, 0)); err != nil {
		return err
	}
	for number := 1; number < 10; number++ {
		if err = made.SendOneWay(context.Background(), message(topic, number)); err != nil {
			return err
		}
	}
	if err = read(topic, 10); err != nil {
		return err
	}
	return made.Shutdown()
}

func batch(topic string) error {
	made, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	var messages []*primitive.Message
	for number := 0; number < 32; number++ {
		messages = append(messages, message(topic, number))
	}
	result, err := made.SendSync(context.Background(), messages...)
	if err != nil {
		return err
	}
	if count := len(strings.Split(result.OffsetMsgID, ",")); count != 32 {
		return fmt.Errorf("%d ids instead of 32", count)
	}
	return read(topic, 32)
}

func selector(topic string) error {
	made, err := newProducer(topic, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return err
	}
	defer made.Shutdown()
	queue := -1
	for number := 0; number < 10; number++ {
		one := message(topic, number)
		one.WithShardingKey("a key")
		result, err := made.SendSync(context.Background(), one)
		if err != nil {
			return err
		}
		if queue == -1 {
			queue = result.MessageQueue.QueueId
		}
		if result.MessageQueue.QueueId != queue || result.QueueOffset != int64(number) {
			return fmt.Errorf("%v is not at offset %d of queue %d", result, number, queue)
		}
	}
	return nil
}

func delay(topic string) error {
	return later(topic, message(topic, 0).WithDelayTimeLevel(1), time.Second)
}

func timer(topic string) error {
	return later(topic, message(topic, 0).WithDelayTimestamp(time.Now().Add(3*time.Second)), 2*time.Second)
}

// later sends one message, which is to arrive after least.
func later(topic string, one *primitive.Message, least time.Duration) error {
	made, err := newProducer(topic)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	begin := time.Now()
	if _, err = made.SendSync(context.Background(), one); err != nil {
		return err
	}
	if err = read(topic, 1); err != nil {
		return err
	}
	if time.Since(begin) < least {
		return fmt.Errorf("it arrived after %v", time.Since(begin))
	}
	return nil
}

func push(topic string, model consumer.MessageModel, wanted consumer.MessageSelector, each int) error {
	if err := send(topic, 0, 20); err != nil {
		return err
	}
	reader, err := newConsumer("group_"+topic, consumer.WithConsumerModel(model))
	if err != nil {
		return err
	}
	var ids found
	err = reader.Subscribe(topic, wanted,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				ids.add(one.MsgId)
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	defer reader.Shutdown()
	begun := 0
	if model == consumer.Clustering { // a broadcasting consumer of this client begins at the end
		if begun = each; ids.await(begun) != nil {
			return fmt.Errorf("%d of %d arrived", ids.count(), begun)
		}
	} else {
		time.Sleep(5 * time.Second)
		begun = ids.count()
	}
	if err = send(topic, 20, 40); err != nil {
		return err
	}
	if err = ids.await(begun + each); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	if ids.count() != begun+each {
		return fmt.Errorf("%d instead of %d", ids.count(), begun+each)
	}
	return nil
}

func orderly(topic string) error {
	if err := send(topic, 0, 20); err != nil {
		return err
	}
	reader, err := newConsumer("group_"+topic, consumer.WithConsumerOrder(true))
	if err != nil {
		return err
	}
	var ids found
	var lock sync.Mutex
	next := map[int]int64{}
	wrong := ""
	err = reader.Subscribe(topic, everything(),
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			lock.Lock()
			defer lock.Unlock()
			for _, one := range messages {
				if one.QueueOffset != next[one.Queue.QueueId] {
					wrong = fmt.Sprintf("offset %d instead of %d", one.QueueOffset, next[one.Queue.QueueId])
				}
				next[one.Queue.QueueId]++
				ids.add(one.MsgId)
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	defer reader.Shutdown()
	if err = ids.await(20); err != nil {
		return err
	}
	lock.Lock()
	defer lock.Unlock()
	if wrong != "" {
		return fmt.Errorf("out of order: %s", wrong)
	}
	return nil
}

func sql(topic string) error {
	if err := send(topic, 0, 20); err != nil {
		return err
	}
	reader, err := newConsumer("group_" + topic)
	if err != nil {
		return err
	}
	var numbers found
	condition := consumer.MessageSelector{Type: consumer.SQL92, Expression: "a BETWEEN 5 AND 9 OR TAGS = 'TagA'"}
	err = reader.Subscribe(topic, condition,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				numbers.add(one.GetProperty("a"))
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	defer reader.Shutdown()
	if err = numbers.await(9); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	if numbers.count() != 9 {
		return fmt.Errorf("%v", numbers.texts)
	}
	return nil
}

func retry(topic string) error {
	if err := send(topic, 0, 2); err != nil {
		return err
	}
	reader, err := newConsumer("group_" + topic)
	if err != nil {
		return err
	}
	var again found
	err = reader.Subscribe(topic, everything(),
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				if one.ReconsumeTimes == 0 {
					if concurrently, ok := primitive.GetConcurrentlyCtx(ctx); ok {
						concurrently.DelayLevelWhenNextConsume = 1
					}
					return consumer.ConsumeRetryLater, nil
				}
				again.add(one.MsgId)
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	defer reader.Shutdown()
	return again.await(2)
}

func deadLetters(topic string) error {
	if err := send(topic, 0, 2); err != nil {
		return err
	}
	reader, err := newConsumer("group_"+topic, consumer.WithMaxReconsumeTimes(0))
	if err != nil {
		return err
	}
	var refused int32
	err = reader.Subscribe(topic, everything(),
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			atomic.AddInt32(&refused, int32(len(messages)))
			return consumer.ConsumeRetryLater, nil
		})
	if err != nil {
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	defer reader.Shutdown()
	for end := time.Now().Add(patience); atomic.LoadInt32(&refused) < 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d of 2 arrived", refused)
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Second) { // a consumer starts only where there is a route
		err = read("%DLQ%group_"+topic, 2)
		if err == nil || !strings.Contains(err.Error(), "route info not found") || time.Now().After(end) {
			return err
		}
	}
}

func requestReply(topic string) error {
	if err := send(topic, 0, 1); err != nil { // the consumer has to know the route when it starts
		return err
	}
	replying, err := newProducer("reply_" + topic)
	if err != nil {
		return err
	}
	defer replying.Shutdown()
	reader, err := newConsumer("group_" + topic)
	if err != nil {
		return err
	}
	var ready found
	failed := make(chan error, 4)
	err = reader.Subscribe(topic, everything(),
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				if one.GetProperty(primitive.PropertyCorrelationID) == "" {
					ready.add(one.MsgId)
					continue
				}
				reply, err := consumer.CreateReplyMessage(one, nil)
				if err != nil {
					failed <- err
					continue
				}
				reply.Body = []byte("reply to " + string(one.Body)) // which the call above forgets
				if _, err := replying.SendSync(context.Background(), reply); err != nil {
					failed <- err
				}
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	defer reader.Shutdown()
	if err = ready.await(1); err != nil {
		return err
	}
	asking, err := newProducer("ask_" + topic)
	if err != nil {
		return err
	}
	defer asking.Shutdown()
	// a heartbeat makes the client known to the broker; it follows the first route, within a second
	if _, err = asking.SendSync(context.Background(), primitive.NewMessage(topic+"_other", []byte("x"))); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	answer, err := asking.Request(context.Background(), 30*time.Second,
		primitive.NewMessage(topic, []byte("question")))
	if err != nil {
		select {
		case reason := <-failed:
			return reason
		default:
			return err
		}
	}
	if string(answer.Body) != "reply to question" {
		return fmt.Errorf("%q", answer.Body)
	}
	return nil
}

// lite assigns all queues to a pull consumer, seeks to the second message of each, and reads from there.
func lite(topic string) error {
	if err := send(topic, 0, 20); err != nil {
		return err
	}
	reader, err := rocketmq.NewPullConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		consumer.WithGroupName("group_"+topic),
		consumer.WithInstance("group_"+topic),
	)
	if err != nil {
		return err
	}
	if err = reader.Assign(topic, nil); err != nil { // it cannot start without
		return err
	}
	if err = reader.Start(); err != nil {
		return err
	}
	defer reader.Shutdown()
	queues, err := reader.GetTopicRouteInfo(topic)
	if err != nil {
		return err
	}
	for _, queue := range queues {
		first, err := reader.OffsetForTimestamp(queue, 0)
		if err != nil {
			return err
		}
		reader.SeekOffset(queue, first+1)
	}
	if err = reader.Assign(topic, queues); err != nil {
		return err
	}
	wanted := 20 - len(queues)
	var bodies found
	for end := time.Now().Add(patience); bodies.count() < wanted; {
		request, err := reader.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) && time.Now().Before(end) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%d of %d arrived: %w", bodies.count(), wanted, err)
		}
		for _, one := range request.GetMsgList() {
			if one.QueueOffset == 0 {
				return fmt.Errorf("%s is before the offset", one.Body)
			}
			bodies.add(string(one.Body))
		}
		reader.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	return nil
}

// trace sends and consumes with traces, and reads those of both sides.
func trace(topic string) error {
	tracing := &primitive.TraceConfig{
		Access:   primitive.Local,
		Resolver: primitive.NewPassthroughResolver([]string{nameServer}),
	}
	made, err := newProducer(topic, producer.WithTrace(tracing))
	if err != nil {
		return err
	}
	defer made.Shutdown()
	sent, err := made.SendSync(context.Background(), message(topic, 0))
	if err != nil {
		return err
	}
	var bodies found
	if err = readInto(&bodies, topic, 1, 0, consumer.WithTrace(tracing)); err != nil {
		return err
	}
	traces, err := newConsumer("traces_of_" + topic)
	if err != nil {
		return err
	}
	var kinds found
	err = traces.Subscribe("RMQ_SYS_TRACE_TOPIC", everything(),
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				for _, row := range strings.Split(string(one.Body), "\x02") {
					if strings.Contains(row, sent.MsgID) {
						kinds.add(strings.SplitN(row, "\x01", 2)[0])
					}
				}
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = traces.Start(); err != nil {
		return err
	}
	defer traces.Shutdown()
	if err = kinds.await(3); err != nil { // Pub, SubBefore, SubAfter
		return fmt.Errorf("kinds of traces %v: %w", kinds.texts, err)
	}
	return nil
}
