package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Code is one package, parsed and type-checked.
type Code struct {
	Files *token.FileSet
	Trees []*ast.File
	Info  *types.Info
}

// nondeterministic lists, by package, the names that replayed code must not use.
var nondeterministic = map[string][]string{
	"context": {"AfterFunc", "WithDeadline", "WithDeadlineCause", "WithTimeout", "WithTimeoutCause"},
	"github.com/google/uuid": {
		"Must", "New", "NewDCEGroup", "NewDCEPerson", "NewDCESecurity", "NewRandom", "NewString", "NewUUID",
		"NewV6", "NewV7",
	},
	"maps": {"All", "DeleteFunc", "EqualFunc", "Keys", "Values"},
	"math/rand/v2": {
		"ExpFloat64", "Float32", "Float64", "Int", "Int32", "Int32N", "Int64", "Int64N", "IntN", "N", "NormFloat64",
		"Perm", "Shuffle", "Uint", "Uint32", "Uint32N", "Uint64", "Uint64N", "UintN",
	},
	"sync": {"Map", "Pool"},
	"time": {
		"After", "AfterFunc", "LoadLocation", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick",
		"Until",
	},
}

// nondeterministicImports are packages that have nothing for replayed code.
var nondeterministicImports = []string{
	"crypto/rand", "hash/maphash", "math/rand", "os", "runtime", "unsafe",
}

// Replayed finds what would make two runs of the code with one seed differ. A goroutine may be started by
// sync.WaitGroup.Go in a method named Go, which is that of node.Tasks, and nowhere else. The order of a map is taken
// only through slices.Sorted(maps.Keys(m)) and its like.
func Replayed(code Code) []string {
	r := replayed{Code: code, found: map[string]bool{}}
	for _, tree := range code.Trees {
		for _, spec := range tree.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if slices.Contains(nondeterministicImports, path) {
				r.report(spec, "imports "+path)
			}
		}
		ast.PreorderStack(tree, nil, func(n ast.Node, above []ast.Node) bool {
			r.look(n, above)
			return true
		})
	}
	findings := make([]string, 0, len(r.found))
	for finding := range r.found {
		findings = append(findings, finding)
	}
	slices.Sort(findings)
	return findings
}

type replayed struct {
	Code

	found map[string]bool
}

func (r *replayed) report(n ast.Node, what string) {
	position := r.Files.Position(n.Pos())
	r.found[fmt.Sprintf("%s:%d: %s", position.Filename, position.Line, what)] = true
}

// look judges one node of a syntax tree; above are the nodes around it, the outermost first.
func (r *replayed) look(n ast.Node, above []ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		r.report(n, "starts a goroutine")
	case *ast.SelectStmt:
		r.report(n, "selects among channels")
	case *ast.ChanType:
		r.report(n, "names a channel type")
	case *ast.SendStmt:
		r.report(n, "sends to a channel")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			r.report(n, "receives from a channel")
		}
	case *ast.RangeStmt:
		r.lookAtRange(n)
	case *ast.Ident:
		r.lookAtUse(n, above)
	}
	if expression, ok := n.(ast.Expr); ok {
		if t := r.Info.TypeOf(expression); t != nil && isFloat(t) {
			r.report(n, "computes in floating point")
		}
	}
}

func (r *replayed) lookAtRange(n *ast.RangeStmt) {
	t := r.Info.TypeOf(n.X)
	if t == nil {
		return
	}
	switch t.Underlying().(type) {
	case *types.Map:
		r.report(n, "ranges over a map")
	case *types.Chan:
		r.report(n, "receives from a channel")
	}
}

// lookAtUse judges the use of a name that another package declares.
func (r *replayed) lookAtUse(n *ast.Ident, above []ast.Node) {
	used := r.Info.Uses[n]
	if used == nil || used.Pkg() == nil {
		return
	}
	path := used.Pkg().Path()
	if f, ok := used.(*types.Func); ok && f.Signature().Recv() != nil {
		switch full := f.FullName(); {
		case full == "(*sync.WaitGroup).Go" && !within("Go", above):
			r.report(n, "starts a goroutine outside Go")
		case full == "(time.Time).Local":
			r.report(n, "depends on the time zone of the machine")
		}
		return
	}
	if path == "maps" && sorted(above, r.Info) {
		return
	}
	if slices.Contains(nondeterministic[path], n.Name) {
		r.report(n, "uses "+path+"."+n.Name)
	}
}

// within reports whether the nodes belong to a method of that name.
func within(method string, above []ast.Node) bool {
	return slices.ContainsFunc(above, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		return ok && f.Recv != nil && f.Name.Name == method
	})
}

// sorted reports whether a function of package maps, around whose name the nodes are, is called as the argument of a
// sorting function of package slices: name, selector, call, sorting call.
func sorted(above []ast.Node, info *types.Info) bool {
	if len(above) < 3 {
		return false
	}
	inner, isCall := above[len(above)-2].(*ast.CallExpr)
	outer, isArgument := above[len(above)-3].(*ast.CallExpr)
	if !isCall || !isArgument || !slices.Contains(outer.Args, ast.Expr(inner)) {
		return false
	}
	selector, ok := ast.Unparen(outer.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	f, ok := info.Uses[selector.Sel].(*types.Func)
	return ok && (f.FullName() == "slices.Sorted" || f.FullName() == "slices.SortedFunc")
}

func isFloat(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0
}
