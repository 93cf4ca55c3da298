package main

import (
	"errors"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestWeave puts two mutants into one function, whose parameters have no names, and sees that each has a copy of its
// own that passes them on. What is no part of a function is left to a build of its own, and what is no Go is refused.
func TestWeave(t *testing.T) {
	const source = "package p\n\nconst most = 3\n\n" +
		"func (s) f(_ int, more ...int) int {\n\ta := 1\n\treturn a + most\n}\n"
	w, err := newWeaver("p.go", source)
	if err != nil {
		t.Fatal(err)
	}
	mutate := func(from, to string) *mutant { return &mutant{file: "p.go", old: []string{from}, new: []string{to}} }
	for number, m := range []*mutant{mutate("a := 1", "a := 2"), mutate("a + most", "a - most")} {
		if err := w.add(m, number+1); err != nil {
			t.Error(err)
		}
	}
	if err := w.add(mutate("most = 3", "most = 4"), 3); !errors.Is(err, errAlone) {
		t.Errorf("a constant: %v", err)
	}
	if err := w.add(mutate("return a", "return return"), 4); err == nil || errors.Is(err, errAlone) {
		t.Errorf("no Go: %v", err)
	}
	woven := w.text()
	if _, err := parser.ParseFile(token.NewFileSet(), "p.go", woven, 0); err != nil {
		t.Errorf("%v\n%s", err, woven)
	}
	for _, want := range []string{
		"func (receiverOf0 s) f(parameter0 int, more ...int) int {",
		"if mutantAtWork == 1 { return receiverOf0.fMutant1(parameter0, more...) }",
		"if mutantAtWork == 2 { return receiverOf0.fMutant2(parameter0, more...) }",
		"func (s) fMutant1(_ int, more ...int) int {\n\ta := 2\n\treturn a + most\n}",
		"func (s) fMutant2(_ int, more ...int) int {\n\ta := 1\n\treturn a - most\n}",
		"\ta := 1\n\treturn a + most\n}\n\n//line mutant1.go:1\n",
	} {
		if !strings.Contains(woven, want) {
			t.Errorf("it lacks %q:\n%s", want, woven)
		}
	}
}
