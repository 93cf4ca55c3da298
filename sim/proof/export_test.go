package proof

// After returns what is true before a transition exactly if a formula is true after it, as the solvers are asked.
func (t *Transition) After(e Expr) Expr { return t.after(e) }
