package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/store/postgres"
)

// While marks are used, what begins to wait below them, and claims that expire below them, are found by the sweep, on
// every lane, each of them once. When the sweep has found out that nothing is dear, marks are given up.
func TestMarksPassNothingOver(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	const lanes, each = 3, 40
	var names []string
	var list []node.Message
	for lane := range lanes {
		names = append(names, fmt.Sprint("lane-", lane))
		for i, m := range messages(each) {
			m.Lane = names[lane]
			// From an hour ago up to now, many of them within the seconds before the mark.
			m.Deadline = time.Now().Add(-time.Hour / time.Duration(1+i*i))
			list = append(list, m)
		}
	}
	insert(t, s, list[:len(list)/2], false)
	postgres.UseMarks(s, names, time.Now())
	if n := postgres.Marks(s); n != lanes+1 {
		t.Fatalf("marks are used on %d lanes, want %d", n, lanes+1)
	}
	insert(t, s, list[len(list)/2:], false)
	seen := map[node.Ref]int{}
	expired := map[node.Ref]bool{}
	for end := time.Now().Add(patience); len(seen) < len(list) || len(expired) < len(list) || postgres.Marks(s) > 0; {
		request := node.ClaimRequest{Node: owner(), Until: time.Now()}
		for _, name := range names {
			request.Lanes = append(request.Lanes, node.Share{Lane: name, Limit: 7, Bytes: 1 << 20})
		}
		result, err := s.Claim(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for i, m := range result.Messages {
			count[m.Lane]++
			if seen[m.Ref()]++; seen[m.Ref()] > 1 {
				t.Fatalf("message %q came twice", m.ID)
			}
			if count[m.Lane] > 7 || i > 0 && m.Deadline.Before(result.Messages[i-1].Deadline) {
				t.Fatalf("%d of lane %s were claimed at once, or out of order", count[m.Lane], m.Lane)
			}
		}
		claims, err := s.Expired(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var refs []node.Ref
		for _, claim := range claims {
			refs = append(refs, claim.Ref)
			expired[claim.Ref] = true
		}
		deleted, err := s.Settle(t.Context(), node.Removals(refs...))
		if err != nil {
			t.Fatal(err)
		}
		for i, done := range deleted {
			if done != node.Removed {
				t.Fatalf("the claim %+v came twice", claims[i])
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d claimed and %d expired of %d; marks are used on %d lanes",
				len(seen), len(expired), len(list), postgres.Marks(s))
		}
	}
}

// What this store gives back, to be due below the mark, is claimed by the next call, however far below it lies. What it
// parks there is no matter of the mark: claims on a part begin at its beginning, and so find what lies far below.
func TestMarksOfWhatIsGivenBack(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	list := messages(2)
	for i := range list {
		list[i].Lane, list[i].Deadline = "lane", time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	}
	insert(t, s, list, false)
	claim := func(part string, want int) []node.Ready {
		t.Helper()
		result, err := s.Claim(t.Context(), node.ClaimRequest{
			Node: owner(), Hold: time.Minute, Until: time.Now(), Lanes: []node.Share{
				{Lane: "lane", Part: part, Limit: 100, Bytes: 1 << 20},
			},
		})
		if err != nil || len(result.Messages) != want {
			t.Fatalf("claimed %d messages on part %q, want %d; error %v", len(result.Messages), part, want, err)
		}
		return result.Messages
	}
	claimed := claim("", 2)
	postgres.UseMarks(s, []string{"lane"}, time.Now())
	if _, err := s.Reset(t.Context(), []node.Release{
		{Claim: claimed[0].Claim, Due: claimed[0].Deadline.Add(time.Minute)}, {Claim: claimed[1].Claim, Part: "3"},
	}); err != nil {
		t.Fatal(err)
	}
	claim("3", 1)
	claim("", 1)
	if n := postgres.Marks(s); n != 2 {
		t.Errorf("marks are used on %d lanes, want 2", n)
	}
}

// What a take of this store leaves waiting below a mark is claimed by the next call, however far below it lies: what is
// stored overdue, and what an instruction has moved there.
func TestMarksHeedInstructions(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	f := newFeed(t, s, 1)
	for _, c := range []struct {
		action node.Action
		stored bool
		want   node.Outcome
	}{
		{node.Schedule, false, node.Scheduled},
		{node.Reschedule, true, node.Rescheduled},
		{node.Replace, true, node.Replaced},
		{node.FireNow, true, node.FiredNow},
	} {
		t.Run(c.action.String(), func(t *testing.T) {
			id := c.action.String()
			if c.stored {
				f.must(t, []node.Item{one(node.Schedule, id)}, node.Scheduled)
			}
			postgres.UseMarks(s, []string{"output", "outcomes"}, time.Now())
			item := told(one(c.action, id))
			item.Deadline = time.Now().Add(-time.Hour)
			item.Answer.Deadline = time.Now().Add(-time.Hour).Truncate(time.Microsecond)
			f.must(t, []node.Item{item}, c.want)
			for _, lane := range []string{"output", "outcomes"} {
				request := due(10)
				request.Lanes[0].Lane = lane
				result, err := s.Claim(t.Context(), request)
				if err != nil || len(result.Messages) != 1 {
					t.Errorf("claimed %d on lane %s, want 1; error %v", len(result.Messages), lane, err)
				}
			}
			if n := postgres.Marks(s); n != 3 {
				t.Errorf("marks are used on %d lanes, want 3", n)
			}
			postgres.ForgetLooks(s)
		})
	}
}

// How far the server is away does not count: what waits an hour below the marks is found as soon as on a short link,
// and marks that nothing makes necessary are given up, and not begun.
func TestMarksOnALongLink(t *testing.T) {
	const far = 80 * time.Millisecond // longer than all that is called dear, or that a slice is to take
	network, address := newRelay(t, newSchema(t, newDatabase(t)))
	s := open(t, address, postgres.Options{})
	m := messages(1)[0]
	m.Deadline = time.Now().Add(-time.Hour)
	postgres.UseMarks(s, []string{m.Lane}, time.Now())
	insert(t, s, []node.Message{m}, false)
	network.moveAway(far)
	look := func() (claimed int) {
		result, err := s.Claim(t.Context(), node.ClaimRequest{
			Node: owner(), Until: time.Now(), Lanes: []node.Share{{Lane: m.Lane, Limit: 7, Bytes: 1 << 20}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Expired(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		return len(result.Messages)
	}
	claimed := 0
	for end := time.Now().Add(patience); claimed == 0 || postgres.Marks(s) > 0; {
		claimed += look()
		if time.Now().After(end) {
			t.Fatalf("%d claimed; marks are used on %d lanes", claimed, postgres.Marks(s))
		}
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		look()
		if postgres.Marks(s) > 0 {
			t.Fatal("marks are used, and no look costs anything")
		}
	}
}

// A lane that is paused while marks are used keeps its mark: what waits there is claimed by the first call after it is
// resumed, and not only when the sweep comes to it.
func TestMarksOfAPausedLane(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	m := messages(1)[0]
	m.Deadline = time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	insert(t, s, []node.Message{m}, false)
	postgres.UseMark(s, m.Lane, m.Deadline, time.Now())
	if _, err := s.Pause(t.Context(), node.Pause{Lane: m.Lane}); err != nil {
		t.Fatal(err)
	}
	request := node.ClaimRequest{
		Node: owner(), Hold: time.Minute, Lanes: []node.Share{{Lane: m.Lane, Limit: 10, Bytes: 1 << 20}},
	}
	claim := func(want int) {
		t.Helper()
		request.Until = time.Now()
		result, err := s.Claim(t.Context(), request)
		if err != nil || len(result.Messages) != want {
			t.Fatalf("claimed %d messages, want %d; error %v", len(result.Messages), want, err)
		}
	}
	for range 5 {
		claim(0)
	}
	if _, err := s.Resume(t.Context(), m.Lane); err != nil {
		t.Fatal(err)
	}
	if n := postgres.Marks(s); n != 1 {
		t.Fatalf("marks are used on %d lanes, want 1", n)
	}
	claim(1)
}

// A look for what fell due lately moves no mark: what is overdue for longer is claimed by the next look at the whole
// lane, and not only when the sweep comes to it, and what such a look finds on another lane still moves the mark there.
func TestMarksOfALookFromAnInstantOn(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	now := time.Now().Truncate(time.Microsecond)
	var list []node.Message
	for i, m := range messages(4) {
		if m.Lane, m.Deadline = "shared", now; i%2 == 1 {
			m.Lane = "whole"
		}
		if i < 2 {
			m.Deadline = now.Add(-time.Minute)
		}
		list = append(list, m)
	}
	insert(t, s, list, false)
	for _, lane := range []string{"shared", "whole"} {
		postgres.UseMark(s, lane, now.Add(-2*time.Minute), now) // The sweep goes down from there.
	}
	claim := func(want int, shares ...node.Share) {
		t.Helper()
		result, err := s.Claim(t.Context(), node.ClaimRequest{
			Node: owner(), Hold: time.Minute, Until: time.Now(), Lanes: shares,
		})
		if err != nil || len(result.Messages) != want {
			t.Fatalf("claimed %d messages, want %d; error %v", len(result.Messages), want, err)
		}
	}
	from := now.Add(-time.Second)
	for _, want := range []int{3, 0} { // what is new on the one lane, and all on the other
		claim(want, node.Share{Lane: "shared", Limit: 10, Bytes: 1 << 20, From: from},
			node.Share{Lane: "whole", Limit: 10, Bytes: 1 << 20})
	}
	if n := postgres.Marks(s); n != 2 {
		t.Fatalf("marks are used on %d lanes, want 2", n)
	}
	claim(1, node.Share{Lane: "shared", Limit: 10, Bytes: 1 << 20})
}

// A lane that is resumed in the middle of a claim keeps its mark, too. A trigger resumes it, after the statement that
// claims has seen the pause and before the one that asks what is paused.
func TestMarksOfALaneThatIsResumedMeanwhile(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	m := messages(1)[0]
	m.Deadline = time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	insert(t, s, []node.Message{m}, false)
	postgres.UseMark(s, m.Lane, m.Deadline.Add(-time.Minute), time.Now()) // The sweep goes down from there.
	if _, err := s.Pause(t.Context(), node.Pause{Lane: m.Lane}); err != nil {
		t.Fatal(err)
	}
	claim := func(want int) {
		t.Helper()
		result, err := s.Claim(t.Context(), node.ClaimRequest{
			Node: owner(), Hold: time.Minute, Until: time.Now(),
			Lanes: []node.Share{{Lane: m.Lane, Limit: 10, Bytes: 1 << 20}},
		})
		if err != nil || len(result.Messages) != want {
			t.Fatalf("claimed %d messages, want %d; error %v", len(result.Messages), want, err)
		}
	}
	claim(0) // The sweep knows of the pause from now on.
	for _, statement := range []string{
		`CREATE FUNCTION resume() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN DELETE FROM pauses; RETURN NULL; END $$`,
		"CREATE TRIGGER resume AFTER UPDATE ON messages FOR EACH STATEMENT EXECUTE FUNCTION resume()",
	} {
		if _, err := s.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	claim(0)
	claim(1)
}
