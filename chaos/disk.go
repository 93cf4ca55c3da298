package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/chaos/servers"
)

// smallDisk moves the table to a file system of its own in memory, which is so small that it can be filled. Only the
// table is there: a Postgres whose log has no room left does not run at all.
func smallDisk(ctx context.Context, r *run) error {
	if r.servers.Backend() != servers.Processes {
		return fmt.Errorf("give the table a small disk: %w: the servers are %s", ErrImpossible, r.servers.Backend())
	}
	dir := filepath.Join(r.postgres.now().Dir(), "small")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("give the table a small disk: %w", err)
	}
	mount := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir)
	if out, err := mount.CombinedOutput(); err != nil {
		return fmt.Errorf("give the table a small disk: %w: %s", ErrImpossible, out)
	}
	r.cleanUp = append(r.cleanUp, func() error {
		return exec.CommandContext(context.WithoutCancel(ctx), "umount", "-l", dir).Run()
	})
	who, err := servers.PostgresUser()
	if err == nil && who != nil {
		err = os.Chown(dir, int(who.Uid), int(who.Gid))
	}
	if err != nil {
		return fmt.Errorf("give the table a small disk: %w", err)
	}
	err = r.postgres.now().Exec(ctx,
		"CREATE TABLESPACE small LOCATION '"+dir+"'",
		"ALTER TABLE "+table+" SET TABLESPACE small",
		"CREATE TABLE filler (bytes text) TABLESPACE small",
		"ALTER TABLE filler ALTER COLUMN bytes SET STORAGE EXTERNAL",
	)
	if err != nil {
		return fmt.Errorf("give the table a small disk: %w", err)
	}
	return nil
}

// fillDisk leaves no room on the small disk.
func (n *nemesis) fillDisk(at, lasts time.Duration) {
	use := n.cluster.postgres.now().Do
	n.add(fault{
		at: at, lasts: lasts, text: "the disk of the table is full",
		strike: func(ctx context.Context) error {
			return use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
				var err error
				for size := 1 << 20; size > 64; {
					if _, err = conn.Exec(ctx, "INSERT INTO filler VALUES (repeat('x', $1))", size); err != nil {
						size /= 2 // what is left is smaller
					}
				}
				return nil
			})
		},
		mend: func(ctx context.Context) error {
			return n.cluster.postgres.now().Exec(ctx, "DROP TABLE filler")
		},
	})
}
