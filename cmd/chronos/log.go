package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/mattn/go-isatty"
)

// logger returns the logger that the settings describe. It writes to out.
func (s *logSettings) logger(out io.Writer) (*slog.Logger, error) {
	level, err := s.level("info")
	if err != nil {
		return nil, err
	}
	format, err := s.LogFormat.choice("auto", "text", "json", "auto")
	if err != nil {
		return nil, err
	}
	if format == "text" || format == "auto" && isTerminal(out) {
		return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})), nil
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})), nil
}

// level returns the level, or fallback if it is not set.
func (s *logSettings) level(fallback string) (slog.Level, error) {
	name, err := s.LogLevel.choice(fallback, "debug", "info", "warn", "error")
	if err != nil {
		return 0, err
	}
	var level slog.Level
	return level, level.UnmarshalText([]byte(name))
}

// isTerminal reports whether stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && (isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd()))
}
