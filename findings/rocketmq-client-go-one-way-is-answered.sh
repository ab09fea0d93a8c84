#!/usr/bin/env bash
# github.com/apache/rocketmq-client-go/v2 2.1.2, the newest release. By its source the commit 2173d070 of December 2025 does the same.
#
# Producer.SendOneWay is for messages whose fate does not matter, and the client ends transactions by one-way requests.
# In the remoting protocol bit 1 of a request's flag (value 2) says that its sender wants no answer; Java's client sets it.
#
# Expected: the frames of SendOneWay have flag 2, those of SendSync flag 0.
# What happens: all have flag 0 (the constant RPCOneWay of internal/remote/codec.go is not used). So a broker answers each
# one-way message and each end of a transaction, and the client drops the answers. One-way sends cost the broker and the
# network as much as sends that wait, and a broker counts them as answered.
#
# Needs go 1.19 or newer; the module is fetched into a temporary folder. The server below listens on 127.0.0.1 and stands
# for a NameServer and a broker: it prints the flags of what arrives.
# Exit code 0: as described. 1: the behaviour has changed. 2: the module cannot be fetched or compiled.
set -euo pipefail
work=$(mktemp -d)
cleanup() {
  chmod -R u+w "$work" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"
export GOPATH="$work/go" GOCACHE="$work/cache" GOFLAGS=-mod=mod GOTOOLCHAIN=local

cat >main.go <<'GO'
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	heartbeat = 34
	route     = 105
	send      = 10
)

type request struct {
	Code   int `json:"code"`
	Opaque int `json:"opaque"`
	Flag   int `json:"flag"`
}

type server struct {
	lock  sync.Mutex
	flags []int
	port  int
}

func (s *server) serve(conn net.Conn) {
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		end := 4 + int(binary.BigEndian.Uint32(frame)&0xFFFFFF)
		var got request
		if err := json.Unmarshal(frame[4:end], &got); err != nil {
			panic(err)
		}
		fields, body := map[string]string{}, ""
		switch got.Code {
		case route:
			body = fmt.Sprintf(`{"brokerDatas":[{"cluster":"c","brokerName":"b","brokerAddrs":{"0":"127.0.0.1:%d"}}],`+
				`"queueDatas":[{"brokerName":"b","readQueueNums":1,"writeQueueNums":1,"perm":6,"topicSynFlag":0}]}`, s.port)
		case send:
			s.lock.Lock()
			s.flags = append(s.flags, got.Flag)
			s.lock.Unlock()
			fields = map[string]string{"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "0"}
		}
		header, _ := json.Marshal(map[string]any{"code": 0, "flag": 1, "language": "JAVA", "opaque": got.Opaque,
			"version": 0, "serializeTypeCurrentRPC": "JSON", "extFields": fields})
		answer := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
		answer = binary.BigEndian.AppendUint32(answer, uint32(len(header)))
		if _, err := conn.Write(append(append(answer, header...), body...)); err != nil {
			return
		}
	}
}

func (s *server) taken() []int {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := s.flags
	s.flags = nil
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	rlog.SetLogLevel("fatal")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	s := &server{port: listener.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	made, err := producer.NewDefaultProducer(producer.WithNameServer([]string{fmt.Sprintf("127.0.0.1:%d", s.port)}))
	must(err)
	must(made.Start())
	_, err = made.SendSync(context.Background(), primitive.NewMessage("topic", []byte("waits")))
	must(err)
	waits := s.taken()
	must(made.SendOneWay(context.Background(), primitive.NewMessage("topic", []byte("does not wait"))))
	var oneWay []int
	for deadline := time.Now().Add(10 * time.Second); len(oneWay) == 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		oneWay = s.taken()
	}
	fmt.Println("flags of SendSync:", waits)
	fmt.Println("flags of SendOneWay:", oneWay)
	if len(waits) != 1 || len(oneWay) != 1 || waits[0] != 0 || oneWay[0] != 0 {
		os.Exit(1)
	}
	os.Exit(0)
}
GO
go mod init finding >/dev/null 2>&1
go get github.com/apache/rocketmq-client-go/v2@v2.1.2 >get.log 2>&1 || { cat get.log; exit 2; }
go build -o finding . >build.log 2>&1 || { cat build.log; exit 2; }
if ./finding; then
  echo "as described: one-way sends are marked like sends that wait for an answer"
else
  echo "the behaviour has changed"
  exit 1
fi
