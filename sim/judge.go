package sim

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Violation says which invariant was broken, when, and how.
type Violation struct {
	Invariant string
	Detail    string
	At        time.Duration
}

// judge sees everything that an outsider sees, and the store.
type judge struct {
	world *world
	fires map[int]int
	valid map[int]bool
	cover map[int]bool
	of    map[uuid.UUID]int
}

func newJudge(w *world) *judge {
	return &judge{
		world: w, fires: map[int]int{}, valid: map[int]bool{}, cover: map[int]bool{}, of: map[uuid.UUID]int{},
	}
}

func (j *judge) started(*life)                   {}
func (j *judge) stopped(*life)                   {}
func (j *judge) crashed(*life)                   {}
func (j *judge) paused(*life, time.Duration)     {}
func (j *judge) storeStepped(time.Duration)      {}
func (j *judge) stepped(*host, time.Duration)    {}
func (j *judge) healed()                         {}
func (j *judge) rolledBack(node.Store)           {}
func (j *judge) rewound(*partition)              {}
func (j *judge) committed(*life, *partition)     {}
func (j *judge) polled(*life, []node.Record)     {}
func (j *judge) struck(Fault, *life)             {}
func (j *judge) event(*life, node.Event)         {}
func (j *judge) deleteDone(*life, []node.Ref)    {}
func (j *judge) reset(*life, node.Release)       {}
func (j *judge) publishing(*life, []node.Record) {}

func (j *judge) submitted(s Submission, r *node.Record) {
	j.valid[s.Number] = s.Flaw == ""
}

func (j *judge) inserted(l *life, m *node.Message, c node.Claim) {
	j.of[m.Incarnation] = numberIn(m.Headers)
}

func (j *judge) duplicate(l *life, m *node.Message, by uuid.UUID) {
	j.cover[numberIn(m.Headers)] = true
}

func (j *judge) present(l *life, id node.MessageID, present bool, by uuid.UUID) {
	if present {
		for n := range 10000 {
			if "m"+fmt.Sprint(n) == id.ID {
				j.cover[n] = true
			}
		}
	}
}

func (j *judge) claimed(*life, node.ReadyRequest, []node.Readied) {}

func (j *judge) deleted(l *life, ref node.Ref) {
	if n := j.of[ref.Incarnation]; j.fires[n] == 0 {
		j.world.broken("S2", fmt.Sprint("deleted without a fire: ", n))
	}
}

func (j *judge) published(l *life, n int, r *node.Record) { j.fires[n]++ }

func (j *judge) finish() {
	for n := range 100000 {
		if j.valid[n] && j.fires[n] == 0 && !j.cover[n] {
			j.world.broken("S1", fmt.Sprint("lost: ", n))
		}
	}
}
