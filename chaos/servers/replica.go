package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backup is the data of a Postgres as it was at some moment, complete with the log that makes it consistent.
type Backup struct {
	dir string

	// At is the moment to which a server is set back by it: what was committed later is not in it.
	At time.Time
}

// Backup takes a base backup of the running server, as pg_basebackup does: nobody waits for it.
func (p *Postgres) Backup(ctx context.Context) (*Backup, error) {
	b, err := p.newBackup()
	if err != nil {
		return nil, err
	}
	err = p.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		// The names have changed with version 15; the session has to stay from beginning to end.
		begin, end := "SELECT pg_backup_start('chronos', true)", "SELECT labelfile FROM pg_backup_stop(false)"
		if old := conn.PgConn().ParameterStatus("server_version"); strings.HasPrefix(old, "14") {
			begin = "SELECT pg_start_backup('chronos', true, false)"
			end = "SELECT labelfile FROM pg_stop_backup(false, false)"
		}
		if _, err := conn.Exec(ctx, begin); err != nil {
			return err
		}
		// Files change while they are read: the log since the beginning of the backup, which is copied last, puts
		// right what was torn.
		if err := copyData(p.data(), b.dir, func(path string) bool { return !volatile(path) }); err != nil {
			return err
		}
		var label string
		if err := conn.QueryRow(ctx, end).Scan(&label); err != nil {
			return err
		}
		b.At = time.Now()
		if err := copyData(filepath.Join(p.data(), "pg_wal"), filepath.Join(b.dir, "pg_wal"), all); err != nil {
			return err
		}
		return own(b.dir, "backup_label", label)
	})
	if err != nil {
		return nil, fmt.Errorf("take a backup of Postgres: %w", err)
	}
	return b, nil
}

// Copy copies the data of the server, which has to be down.
func (p *Postgres) Copy() (*Backup, error) {
	b, err := p.newBackup()
	if err == nil {
		err = copyData(p.data(), b.dir, all)
	}
	if err != nil {
		return nil, fmt.Errorf("copy the data of Postgres: %w", err)
	}
	b.At = time.Now()
	return b, nil
}

// Restore gives the server, which has to be down, the data of a backup for its own. The backup stays.
func (p *Postgres) Restore(b *Backup) error {
	if p.Dir() == "" {
		return fmt.Errorf("restore Postgres: %w: its data is not on this machine", ErrImpossible)
	}
	err := os.RemoveAll(p.data())
	if err == nil {
		err = copyData(b.dir, p.data(), all)
	}
	if err != nil {
		return fmt.Errorf("restore Postgres: %w", err)
	}
	return nil
}

// Standby starts a server of that name which streams from a primary, and makes every commit of the primary wait for it
// (synchronous_standby_names). It returns when the primary counts on it.
func (s *Servers) Standby(ctx context.Context, primary *Postgres, name string) (*Postgres, error) {
	b, err := primary.Backup(ctx)
	if err != nil {
		return nil, err
	}
	standby, err := s.stream(ctx, primary, name, b)
	if err != nil {
		return nil, fmt.Errorf("make a standby: %w", err)
	}
	err = primary.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+name+"'", "SELECT pg_reload_conf()")
	if err == nil {
		err = Await(ctx, 30*time.Second, func(ctx context.Context) error { return primary.follows(ctx, name) })
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a standby: %w\n%s", err, Tail(standby.Log))
	}
	return standby, nil
}

// stream starts a standby on a backup.
func (s *Servers) stream(ctx context.Context, primary *Postgres, name string, b *Backup) (*Postgres, error) {
	data := filepath.Join(s.config.Dir, name, "data")
	if err := os.MkdirAll(filepath.Dir(data), 0o755); err != nil {
		return nil, err
	}
	if err := os.Rename(b.dir, data); err != nil {
		return nil, err
	}
	password, _ := primary.Admin.User.Password()
	host, port, _ := strings.Cut(primary.Address, ":")
	connect := fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=%s password=%s application_name=%s'\n",
		host, port, primary.Admin.User.Username(), password, name)
	// An ALTER SYSTEM of the primary is in the copy, too.
	if err := errors.Join(own(data, "standby.signal", ""), own(data, "postgresql.auto.conf", connect)); err != nil {
		return nil, err
	}
	standby, err := s.newPostgres(ctx, PostgresConfig{Name: name, Settings: primary.config.Settings}, password)
	if err != nil {
		return nil, err
	}
	if err := standby.Start(ctx); err != nil {
		return nil, err
	}
	return standby, standby.Ready(ctx, time.Minute)
}

// follows reports whether a standby of that name is the one that commits wait for; nil if it is.
func (p *Postgres) follows(ctx context.Context, name string) error {
	return p.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var state string
		const query = "SELECT sync_state FROM pg_stat_replication WHERE application_name = $1"
		if err := conn.QueryRow(ctx, query, name).Scan(&state); err != nil {
			return err
		}
		if state != "sync" {
			return fmt.Errorf("it is %s, and not sync", state)
		}
		return nil
	})
}

// Promote makes a standby a primary of its own, and waits until it takes writes.
func (p *Postgres) Promote(ctx context.Context) error {
	var done bool
	err := p.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_promote(true, 30)").Scan(&done)
	})
	if err == nil && !done {
		err = errors.New("it has not happened within 30 s")
	}
	if err != nil {
		return fmt.Errorf("promote the standby: %w", err)
	}
	return nil
}

// data is the folder with the data.
func (p *Postgres) data() string { return filepath.Join(p.Dir(), "data") }

// newBackup makes the folder for a backup.
func (p *Postgres) newBackup() (*Backup, error) {
	if p.Dir() == "" {
		return nil, fmt.Errorf("copy the data of Postgres: %w: it is not on this machine", ErrImpossible)
	}
	dir, err := os.MkdirTemp(p.servers.config.Dir, "backup-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a backup: %w", err)
	}
	return &Backup{dir: dir}, nil
}

// all takes every file.
func all(string) bool { return true }

// volatile reports whether a file of a running server has no place in its backup: it belongs to the process, or is made
// anew at the start; see "Making a Base Backup Using the Low Level API" in the documentation of Postgres.
func volatile(path string) bool {
	switch first, rest, _ := strings.Cut(path, "/"); first {
	case "postmaster.pid", "postmaster.opts":
		return true
	case "pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans":
		return rest != ""
	}
	return strings.HasPrefix(filepath.Base(path), "pgsql_tmp")
}

// copyData copies a folder, as the user of Postgres. What vanishes meanwhile is left out.
func copyData(from, to string, wanted func(path string) bool) error {
	who, err := PostgresUser()
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || !wanted(name) {
			return err
		}
		there := filepath.Join(to, name)
		if entry.IsDir() {
			err = os.MkdirAll(there, 0o700)
		} else {
			err = copyFile(path, there)
		}
		if err == nil && who != nil {
			err = os.Lchown(there, int(who.Uid), int(who.Gid))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// copyFile copies one file, or a link as what it is.
func copyFile(from, to string) error {
	if target, err := os.Readlink(from); err == nil {
		return os.Symlink(target, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it is only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// own writes a file into the data of a server, as the user of Postgres.
func own(dir, name, text string) error {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	who, err := PostgresUser()
	if err != nil || who == nil {
		return err
	}
	return os.Chown(file, int(who.Uid), int(who.Gid))
}
