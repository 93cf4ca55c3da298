package queues

// Variant is a named deviation from our algorithm, and what it breaks.
type Variant struct {
	Name  string
	Title string // in one line, what is different
	Rules Rules

	// Broken is the property that it breaks, after that many steps.
	Broken Property
	Steps  int
}

// Variants returns all variants.
func Variants() []Variant {
	return []Variant{
		{"completion-twice", "a completion does not look whether the task still runs", Rules{EndAny: true}, Promise, 4},
		{"opening-missed", "an opening has nobody look after the queue", Rules{NoLook: true}, Stuck, 4},
		{"parent-ignored", "the queue that contains it is not asked", Rules{OwnWindow: true}, Closed, 2},
		{"priority-inverted", "the lowest priority starts first", Rules{LastFirst: true}, Order, 4},
		{"head-twice", "start reads and writes in two transactions", Rules{UnlockStart: true}, Closed, 4},
		{
			"both-win", "a completion and the time limit read and write in two transactions",
			Rules{UnlockEnd: true},
			Promise, 5,
		},
		{"promise-first", "the promise is inserted when the task starts", Rules{EarlyBird: true}, Promise, 2},
	}
}
