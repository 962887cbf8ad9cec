// The last init container of a Deployment's pod: it waits until the operator gives the pod a slot, and writes the ids
// that follow from it into the file that the containers' variables read (fileKeyRef, KEP-3721).
//
// The operator's note is an annotation of the pod, shown by a downward API volume:
//
//	<pod uid> waits <number> <slot>    the pod waits for a slot that another pod has; "-": for none yet
//	<pod uid> has <slot>               the slot is the pod's, for good
//	<pod uid> has <slot> <number>      the same, said again where the pod did not take it
//
// A note for another uid counts for nothing, so a copy of the pod learns nothing. After a silence the application starts
// without an id, as a dynamic member. The exit code is always 0: nothing here may keep an application from starting.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	in := flag.String("in", "/staticgroup/in", "folder with the files uid and note")
	out := flag.String("out", "/staticgroup/out", "folder for the file env")
	silence := flag.Duration("silence", 30*time.Second, "start without an id after so long without a new note")
	flag.CommandLine.Init(os.Args[0], flag.ContinueOnError)
	_ = flag.CommandLine.Parse(os.Args[1:]) // whatever they are, the file is written
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT) // as process 1 it would not end by them otherwise
	go func() { <-stop; say("stopped"); os.Exit(0) }()
	wait(*in, filepath.Join(*out, "env"), *silence, flag.Args())
}

// Wait for the slot. keys: KEY=TEMPLATE for each variable; %s in the template stands for the slot.
func wait(in, env string, silence time.Duration, keys []string) {
	if _, err := os.Stat(env); err == nil {
		say("the file is there already") // the sandbox was made anew, which runs init containers again
		return
	}
	last, heard := "", time.Now()
	for ; time.Since(heard) < silence; time.Sleep(100 * time.Millisecond) {
		note := noteFor(in)
		if note == last {
			continue
		}
		last, heard = note, time.Now()
		switch words := strings.Fields(note); {
		case isGiven(words):
			if err := write(env, words[1], keys); err != nil {
				say("the slot %s cannot be written: %v", words[1], err)
				continue
			}
			say("slot %s", words[1])
			return
		case len(words) == 3 && words[0] == "waits" && words[2] != "-":
			say("waits for slot %s, until the pod that has it has ended", words[2])
		case len(words) == 3 && words[0] == "waits":
			say("waits for a slot, until another pod begins to end")
		}
	}
	// Empty, because the kubelet creates no container while the file is missing, though its keys are optional.
	if err := write(env, "", nil); err != nil {
		say("the file cannot be written: %v", err)
	}
	say("no new note from the StaticGroup operator for %v: the application starts without an id", silence)
}

func isGiven(words []string) bool {
	isAgain := len(words) == 3 && strings.Trim(words[2], "0123456789") == ""
	return (len(words) == 2 || isAgain) && words[0] == "has"
}

// Return what the note says to this pod; "" where there is none for it.
func noteFor(in string) string {
	uid, _ := os.ReadFile(filepath.Join(in, "uid"))
	note, _ := os.ReadFile(filepath.Join(in, "note"))
	said, found := strings.CutPrefix(string(note), strings.TrimSpace(string(uid))+" ")
	if !found || len(uid) == 0 {
		return ""
	}
	return said
}

// Write the variables; the file is there whole or not at all.
func write(env, slot string, keys []string) error {
	var lines strings.Builder
	for _, each := range keys {
		key, template, _ := strings.Cut(each, "=")
		fmt.Fprintf(&lines, "%s='%s'\n", key, strings.ReplaceAll(template, "%s", slot))
	}
	if err := os.WriteFile(env+".new", []byte(lines.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(env+".new", env)
}

func say(format string, values ...any) { fmt.Printf(format+"\n", values...) }
