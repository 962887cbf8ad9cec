// Command franz is a consumer of franz-go as a pod runs it, or several of them in one process.
//
// Variables: BOOTSTRAP, TOPIC, GROUP; READY_FILE (exists once every consumer has partitions, for a readiness probe); CONSUMERS: one
// spec for each consumer, <group>/<prefix>, default $GROUP/KAFKA. A consumer reads <prefix>_GROUP_INSTANCE_ID (empty: a dynamic
// member) and <prefix>_SESSION_TIMEOUT_MS.
//
// One JSON line on standard output for each thing that happened: started, assigned, revoked, lost, error, closed.
//
// Exit code: 0 after SIGTERM, 1 when a client refuses its settings or is fenced, which franz-go tells as an error of a fetch.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type line map[string]any

var output sync.Mutex

func tell(kind string, fields line) {
	fields["kind"], fields["at_ms"] = kind, time.Now().UnixMilli()
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

// readiness is a file that exists once every consumer has been assigned something.
type readiness struct {
	file     string
	lock     sync.Mutex
	awaiting map[string]bool
}

func (r *readiness) joined(consumer string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.awaiting, consumer)
	if len(r.awaiting) == 0 && r.file != "" {
		if err := os.WriteFile(r.file, nil, 0o600); err != nil {
			tell("error", line{"text": err.Error()})
		}
	}
}

// options hands the two injected values on, where they are there: this is all that an application has to write, and a balancer.
//
// A restarted leader must skip the assignment, yet franz-go makes one and joins again when it differs (consumer_group.go, KIP-814).
// Its default, cooperative-sticky, makes another one, because the leader has lost what it owned: one rebalance for each restart of
// the leader. Range depends on the sorted ids alone.
func options(prefix string) ([]kgo.Opt, error) {
	found := []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}
	if id := os.Getenv(prefix + "_GROUP_INSTANCE_ID"); id != "" {
		found = append(found, kgo.InstanceID(id))
	}
	if text := os.Getenv(prefix + "_SESSION_TIMEOUT_MS"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		found = append(found, kgo.SessionTimeout(time.Duration(ms)*time.Millisecond))
	}
	return found, nil
}

func consumer(spec string, ready *readiness) (*kgo.Client, error) {
	group, prefix, _ := strings.Cut(spec, "/")
	said := func(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			numbers := slices.Concat(slices.Collect(maps.Values(topics))...)
			slices.Sort(numbers)
			tell(kind, line{"consumer": spec, "partitions": numbers})
			if kind == "assigned" && len(numbers) > 0 {
				ready.joined(spec)
			}
		}
	}
	static, err := options(prefix)
	if err != nil {
		return nil, err
	}
	tell("started", line{"consumer": spec, "instance_id": os.Getenv(prefix + "_GROUP_INSTANCE_ID")})
	return kgo.NewClient(append(static,
		kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP"), ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(os.Getenv("TOPIC")),
		kgo.OnPartitionsAssigned(said("assigned")),
		kgo.OnPartitionsRevoked(said("revoked")),
		kgo.OnPartitionsLost(said("lost")),
	)...)
}

func consume(stopped context.Context, spec string, client *kgo.Client) error {
	for {
		fetches := client.PollFetches(stopped)
		if stopped.Err() != nil || fetches.IsClientClosed() {
			return nil
		}
		for _, problem := range fetches.Errors() {
			tell("error", line{"consumer": spec, "text": problem.Err.Error()})
			if errors.Is(problem.Err, kerr.FencedInstanceID) {
				return problem.Err
			}
		}
	}
}

func run(words []string) error {
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ready := &readiness{file: os.Getenv("READY_FILE"), awaiting: map[string]bool{}}
	for _, spec := range words {
		ready.awaiting[spec] = true
	}
	results := make(chan error, len(words))
	for _, spec := range words {
		client, err := consumer(spec, ready)
		if err != nil {
			return err
		}
		go func() {
			err := consume(stopped, spec, client)
			client.Close()
			tell("closed", line{"consumer": spec})
			results <- err
		}()
	}
	for range words {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

func main() {
	words := strings.Fields(os.Getenv("CONSUMERS"))
	if len(words) == 0 {
		words = []string{os.Getenv("GROUP") + "/KAFKA"}
	}
	if err := run(words); err != nil {
		tell("error", line{"text": err.Error()})
		os.Exit(1)
	}
}
