package queue

import (
	"encoding/json"
	"fmt"

	"chronos/node"
)

// content is what an action does, as it is stored. Names of headers are bytes, since a record's need not be UTF-8.
type content struct {
	URI     string          `json:"uri,omitempty"`
	Method  string          `json:"method,omitempty"`
	Topic   string          `json:"topic,omitempty"`
	Headers []contentHeader `json:"headers,omitempty"`
	Key     []byte          `json:"key"`     // null differs from empty
	Payload []byte          `json:"payload"` // so here
}

type contentHeader struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

// Content returns what the action does, as bytes for stores. Its id, name and tags are not among it.
func (a *Action) Content() ([]byte, error) {
	c := content{URI: a.URI, Method: a.Method, Topic: a.Topic, Key: a.Key, Payload: a.Payload}
	for _, h := range a.Headers {
		c.Headers = append(c.Headers, contentHeader{[]byte(h.Name), h.Value})
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode an action: %w", err)
	}
	return encoded, nil
}

// SetContent sets what the action does to what Content has returned.
func (a *Action) SetContent(encoded []byte) error {
	var c content
	if err := json.Unmarshal(encoded, &c); err != nil {
		return fmt.Errorf("read an action: %w", err)
	}
	a.URI, a.Method, a.Topic, a.Key, a.Payload, a.Headers = c.URI, c.Method, c.Topic, c.Key, c.Payload, nil
	for _, h := range c.Headers {
		a.Headers = append(a.Headers, node.Header{Name: string(h.Name), Value: h.Value})
	}
	return nil
}
