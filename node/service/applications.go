package service

import (
	"context"
	"fmt"
	"log/slog"

	"chronos/node"
	"chronos/node/api"
	"chronos/node/store/inspect"
	"chronos/node/store/journal"
	"chronos/node/store/outlook"
)

// openAPI opens the listener for applications, if one is asked for.
func (s *Service) openAPI(ctx context.Context) error {
	if s.config.API.Listen == "" {
		return nil
	}
	config := s.config.API
	config.Log, config.Keeper, config.Memory = s.log, s.config.credentials, s.config.HTTPMemory
	server, err := api.New(config)
	if err != nil {
		return err
	}
	shows, _ := s.store.Store.(inspect.Source)
	tells, _ := s.store.Store.(outlook.Source)
	if shows == nil || tells == nil {
		return fmt.Errorf("--api-listen: this store shows nothing of what it holds")
	}
	served := &api.API{
		Node: &s.config.Node, Taker: stirringTaker{s}, Store: shows, Outlook: s.hours.Outlook(tells),
		Limits: config.Limits,
		Queues: s.desk, Ready: s.isReady, Explain: s.explain, Observe: s.asked, Excused: s.hours.Excuses,
	}
	if s.callback != nil {
		served.Callback = s.callback.Check
	}
	if err := s.openAsker(served); err != nil {
		return err
	}
	if err := server.Mount(served); err != nil {
		return err
	}
	if err := server.Open(ctx); err != nil {
		return fmt.Errorf("--api-listen: %w", err)
	}
	s.applications = server
	s.log.Info("taking messages in by HTTP", slog.String("url", server.URL()))
	if config.TokenFile != "" && config.CertFile == "" && !server.IsLoopback() {
		s.log.Warn("the tokens of the API cross the network in clear: set api-tls-cert and api-tls-key, or put a " +
			"proxy that " +
			"has them in front of it")
	}
	return nil
}

// openAsker has the API of a node with a journal ask through the input topics.
func (s *Service) openAsker(served *api.API) error {
	store, is := s.store.Store.(*journal.Store)
	if !is {
		return nil
	}
	if len(s.config.RequestSecrets) == 0 {
		return Usagef("the API of a node with a journal needs a secret that all nodes share: set request-secret-file")
	}
	opened := s.store.journal
	sender, err := opened.openSenders(s.config.Node.Routes, func(t JournalTopic) string { return t.Input })
	if err != nil {
		return err
	}
	log, _ := opened.log()
	s.asker, s.sender = journal.NewAsker(log, sender, s.config.Node.Requests, journal.AskerLimits{}),
		sender
	served.Elsewhere = func(ctx context.Context, of node.MessageID) (bool, error) {
		return s.asker.Elsewhere(ctx, store, of)
	}
	served.Through = func(ctx context.Context, item node.Item, record node.Record) (node.ItemResult, error) {
		return s.asker.AskBeside(ctx, store, item, record)
	}
	return nil
}

// closeAsker ends what waits for answers from the input topic, and from the owners of the journal.
func (s *Service) closeAsker() {
	if s.asker != nil {
		s.asker.Close()
		s.sender.Close()
	}
	if s.board != nil {
		s.board.Close()
		s.poster.Close()
	}
}

// asked counts what the API has answered.
func (s *Service) asked(event api.Event) {
	switch e := event.(type) {
	case api.Request:
		s.metrics.Requested(e.Operation, e.Status, e.Took)
	case api.Instruction:
		if !e.Again {
			s.metrics.Asked(e.Lane, e.Action.String(), e.Outcome.String())
		}
	}
}

// APIURL returns where the API is; "" for none.
func (s *Service) APIURL() string {
	if s.applications == nil {
		return ""
	}
	return s.applications.URL()
}

// runAPI serves applications until ctx is done.
func (s *Service) runAPI(ctx context.Context) {
	if err := s.applications.Run(ctx); err != nil {
		s.log.Error("the API has ended", slog.String("error", oneLine(err)))
	}
}
