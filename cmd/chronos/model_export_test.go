package main

import (
	"io"

	"chronos/sim/model"
)

// ModelTable prints the table of "chronos model" for other variants, and returns the exit code.
func ModelTable(variants []model.Variant, stdout, stderr io.Writer) int {
	w := &world{stdout: stdout, stderr: stderr}
	t := modelTable{world: w}
	for _, v := range variants {
		t.variant(&v)
	}
	return w.exitCode(t.verdict())
}
