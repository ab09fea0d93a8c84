package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// The broker has to check undecided messages every second or so.

const unknown = primitive.UnkonwnState // so the client spells it

// decider decides transactions by the number in the message, and counts the checks.
type decider struct {
	first func(number int) primitive.LocalTransactionState
	later func(number, times int) primitive.LocalTransactionState

	lock   sync.Mutex
	checks map[int]int
	wrong  string
}

func evenly(number int) primitive.LocalTransactionState {
	if number%2 == 0 {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (d *decider) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	var number int
	if _, err := fmt.Sscanf(string(message.Body), "message %d", &number); err != nil {
		return unknown
	}
	return d.first(number)
}

func (d *decider) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	var number int
	_, err := fmt.Sscanf(string(message.Body), "message %d", &number)
	d.lock.Lock()
	defer d.lock.Unlock()
	id := message.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex)
	isComplete := err == nil && id != "" && message.TransactionId == id && message.Topic == "Go_check" &&
		message.GetKeys() == fmt.Sprintf("key%d", number)
	if !isComplete {
		d.wrong = message.String()
		return unknown
	}
	d.checks[number]++
	return d.later(number, d.checks[number])
}

// asked returns the numbers of messages whose state the broker has asked for.
func (d *decider) asked() (int, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.wrong != "" {
		return 0, fmt.Errorf("a check has another message: %s", d.wrong)
	}
	return len(d.checks), nil
}

func newTransactionProducer(topic string, listener *decider) (rocketmq.TransactionProducer, error) {
	listener.checks = map[int]int{}
	made, err := rocketmq.NewTransactionProducer(listener,
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		producer.WithGroupName("producer_"+topic),
		producer.WithInstanceName("producer_"+topic),
		producer.WithSendMsgTimeout(20*time.Second),
	)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

// transactions sends count messages and waits until consumers have seen those with even numbers; the producer has to
// run until then. Messages with odd numbers must not arrive.
func transactions(topic string, count int, listener *decider) error {
	made, err := newTransactionProducer(topic, listener)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	for number := 0; number < count; number++ {
		result, err := made.SendMessageInTransaction(context.Background(), message(topic, number))
		if err != nil {
			return err
		}
		if result.Status != primitive.SendOK || result.State != listener.first(number) {
			return fmt.Errorf("%v", result)
		}
	}
	var bodies found
	if err := readInto(&bodies, topic, count/2, 3*time.Second); err != nil { // a message too many would arrive
		return err
	}
	bodies.lock.Lock()
	defer bodies.lock.Unlock()
	for number := 0; number < count; number++ {
		if bodies.texts[fmt.Sprintf("message %d", number)] != (number%2 == 0) {
			return fmt.Errorf("%v arrived", bodies.texts)
		}
	}
	return nil
}

// commitOrRollBack ends transactions at once: the broker asks about none.
func commitOrRollBack(topic string) error {
	listener := &decider{first: evenly, later: func(int, int) primitive.LocalTransactionState { return unknown }}
	if err := transactions(topic, 20, listener); err != nil {
		return err
	}
	asked, err := listener.asked()
	if err == nil && asked > 0 {
		err = fmt.Errorf("%d ended transactions were asked about", asked)
	}
	return err
}

// checked leaves transactions undecided; the second answer to a question decides.
func checked(topic string) error {
	listener := &decider{first: func(int) primitive.LocalTransactionState { return unknown }}
	listener.later = func(number, times int) primitive.LocalTransactionState {
		if times < 2 {
			return unknown
		}
		return evenly(number)
	}
	if err := transactions(topic, 10, listener); err != nil {
		return err
	}
	asked, err := listener.asked()
	if err == nil && asked != 10 {
		err = fmt.Errorf("%d of 10 were asked about", asked)
	}
	return err
}
