package proof

import (
	"fmt"
	"strings"
)

// String writes an expression as logicians do. Nothing reads it but people.
func (e Expr) String() string {
	switch e.op {
	case opVariable:
		return e.name
	case opApply:
		if len(e.args) == 0 {
			return e.name
		}
		return e.name + "(" + listed(e.args, ", ") + ")"
	case opEqual:
		return e.args[0].String() + " = " + e.args[1].String()
	case opNot:
		if inner := e.args[0]; inner.op == opEqual {
			return inner.args[0].String() + " ≠ " + inner.args[1].String()
		}
		return "¬" + e.args[0].inner()
	case opAnd:
		return e.joined(" ∧ ", "true")
	case opOr:
		if len(e.args) == 2 && e.args[0].op == opNot {
			return e.args[0].args[0].inner() + " → " + e.args[1].inner()
		}
		return e.joined(" ∨ ", "false")
	case opForAll, opExists:
		sign := "∀"
		if e.op == opExists {
			sign = "∃"
		}
		var bound []string
		for _, v := range e.bound {
			bound = append(bound, fmt.Sprintf("%s: %s", v.name, v.sort))
		}
		return sign + strings.Join(bound, ", ") + " (" + e.args[0].String() + ")"
	default:
		return "nothing"
	}
}

// joined writes what is said together.
func (e Expr) joined(sign, none string) string {
	if len(e.args) == 0 {
		return none
	}
	parts := make([]string, len(e.args))
	for i, arg := range e.args {
		parts[i] = arg.inner()
	}
	return strings.Join(parts, sign)
}

// inner writes an expression that is a part of another one, in parentheses if it needs them.
func (e Expr) inner() string {
	if (e.op == opAnd || e.op == opOr) && len(e.args) > 1 {
		return "(" + e.String() + ")"
	}
	return e.String()
}

func listed(all []Expr, comma string) string {
	parts := make([]string, len(all))
	for i, e := range all {
		parts[i] = e.String()
	}
	return strings.Join(parts, comma)
}

// String writes a transition: what it is about, what it needs, and what each relation that it changes is true of
// afterwards.
func (t *Transition) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s(%s)\n", t.Name, listed(t.Params, ", "))
	for _, guard := range t.Guards {
		fmt.Fprintf(&text, "    needs  %v\n", guard.Formula)
	}
	for _, u := range t.Update {
		fmt.Fprintf(&text, "    then   %v := %v\n", Apply(u.Symbol, u.Of...), u.To)
	}
	return text.String()
}
