package service

import (
	"io"
	"log/slog"
	"os"

	"github.com/mattn/go-isatty"
)

// Logger returns the logger that the settings describe, and whether its lines are JSON. It writes to out.
func (s *Settings) Logger(out io.Writer) (log *slog.Logger, inJSON bool) {
	s.level.Set(s.LogLevel(slog.LevelInfo))
	options := &slog.HandlerOptions{Level: &s.level}
	format := s.logFormat.or("auto")
	if format == "text" || format == "auto" && IsTerminal(out) {
		return slog.New(slog.NewTextHandler(out, options)), false
	}
	return slog.New(slog.NewJSONHandler(out, options)), true
}

// LogLevel returns the level of the log; fallback if it is not set.
func (s *Settings) LogLevel(fallback slog.Level) slog.Level {
	level := fallback
	if s.logLevel.IsSet {
		_ = level.UnmarshalText([]byte(s.logLevel.Text)) // Read has seen that it is one.
	}
	return level
}

// IsTerminal reports whether stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && (isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd()))
}
