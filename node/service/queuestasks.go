package service

import (
	"context"

	"chronos/node"
)

func (s *Service) tasks(next node.Sink) node.Sink { return next }

func (s *Service) keepQueues(ctx context.Context) {}
