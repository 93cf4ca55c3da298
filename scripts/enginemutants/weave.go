package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// atWork is a file that each package with woven mutants gets: its variable is the number of the one that takes effect.
const atWork = "package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\n" +
	"var mutantAtWork, _ = strconv.Atoi(os.Getenv(\"MUTANT_AT_WORK\"))\n"

// errAlone says of a mutant that it cannot be woven, and needs a build of its own.
var errAlone = errors.New("its edit is not inside of one function")

// insertion is text that is put into a source, in place of some bytes.
type insertion struct {
	at, length int
	text       string
}

// weaver puts any number of mutants into one source file. The function that a mutant edits gets a copy with the edit,
// and begins with a condition that calls the copy if the number of the mutant is that of mutantAtWork. So one build
// serves all of them, and the environment chooses. What the copy calls is as it was: a function that calls itself comes
// by the condition again.
type weaver struct {
	source     string
	files      *token.FileSet
	file       *ast.File
	named      map[*ast.FuncDecl]signature
	insertions []insertion
	copies     strings.Builder
}

// signature is what a call of a function needs to pass its parameters on.
type signature struct{ receiver, arguments string }

func newWeaver(name, source string) (*weaver, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	return &weaver{source: source, files: files, file: file, named: map[*ast.FuncDecl]signature{}}, err
}

// add puts a mutant in. The error is errAlone if that is impossible; any other says that its edit is no Go.
func (w *weaver) add(m *mutant, number int) error {
	edited, err := m.apply(w.source)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", edited, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("it does not compile: %w", err)
	}
	first, last := changed(w.source, edited)
	i := slices.IndexFunc(w.file.Decls, func(d ast.Decl) bool {
		f, is := d.(*ast.FuncDecl)
		return is && f.Body != nil && w.offset(f.Body.Lbrace) < first && last <= w.offset(f.Body.Rbrace)
	})
	if i < 0 || len(file.Decls) != len(w.file.Decls) {
		return errAlone
	}
	from, _ := w.file.Decls[i].(*ast.FuncDecl)
	to, is := file.Decls[i].(*ast.FuncDecl)
	text := edited[files.Position(file.Decls[i].Pos()).Offset:files.Position(file.Decls[i].End()).Offset]
	// What recovers a panic has to be called by the defer statement itself.
	if !is || from.Name.Name == "init" || strings.Contains(text, "recover()") {
		return errAlone
	}
	name := fmt.Sprintf("%sMutant%d", from.Name.Name, number)
	after := files.Position(to.Name.End()).Offset - files.Position(to.Pos()).Offset
	before := files.Position(to.Name.Pos()).Offset - files.Position(to.Pos()).Offset
	// The compiler names the mutant where it does not take it.
	fmt.Fprintf(&w.copies, "\n//line mutant%d.go:1\n%s%s%s\n", number, text[:before], name, text[after:])
	w.dispatch(from, name, number)
	return nil
}

// dispatch has a function call a copy of it.
func (w *weaver) dispatch(f *ast.FuncDecl, name string, number int) {
	s, known := w.named[f]
	if !known {
		s = w.sign(f)
		w.named[f] = s
	}
	call := s.receiver + name + s.arguments
	if f.Type.Results.NumFields() > 0 {
		call = "return " + call
	} else {
		call += "; return"
	}
	w.insertions = append(w.insertions, insertion{
		w.offset(f.Body.Lbrace) + 1, 0, fmt.Sprintf("\nif mutantAtWork == %d { %s }\n", number, call),
	})
}

// sign gives names to the parameters of a function that have none, and returns what a call of it says.
func (w *weaver) sign(f *ast.FuncDecl) signature {
	var s signature
	if f.Recv != nil {
		s.receiver = strings.Join(w.names(f.Recv, "receiverOf"), "") + "."
	}
	if f.Type.TypeParams != nil {
		s.arguments = "[" + strings.Join(w.names(f.Type.TypeParams, ""), ", ") + "]"
	}
	s.arguments += "(" + strings.Join(w.names(f.Type.Params, "parameter"), ", ")
	if n := len(f.Type.Params.List); n > 0 {
		if _, variadic := f.Type.Params.List[n-1].Type.(*ast.Ellipsis); variadic {
			s.arguments += "..."
		}
	}
	s.arguments += ")"
	return s
}

// names returns the names of fields, which get one where they have none.
func (w *weaver) names(fields *ast.FieldList, stem string) (all []string) {
	for _, field := range fields.List {
		if len(field.Names) == 0 {
			all = append(all, fmt.Sprint(stem, len(all)))
			w.insertions = append(w.insertions, insertion{w.offset(field.Type.Pos()), 0, all[len(all)-1] + " "})
		}
		for _, name := range field.Names {
			given := name.Name
			if given == "_" {
				given = fmt.Sprint(stem, len(all))
				w.insertions = append(w.insertions, insertion{w.offset(name.Pos()), 1, given})
			}
			all = append(all, given)
		}
	}
	return all
}

func (w *weaver) offset(p token.Pos) int { return w.files.Position(p).Offset }

// text returns the source with all that was added.
func (w *weaver) text() string {
	slices.SortStableFunc(w.insertions, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	at := 0
	for _, i := range w.insertions {
		out.WriteString(w.source[at:i.at] + i.text)
		at = i.at + i.length
	}
	return out.String() + w.source[at:] + w.copies.String()
}

// changed returns where two texts differ, as offsets of the first.
func changed(a, b string) (from, to int) {
	for from < min(len(a), len(b)) && a[from] == b[from] {
		from++
	}
	same := 0
	for same < min(len(a), len(b))-from && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	return from, len(a) - same
}
