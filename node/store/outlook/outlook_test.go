package outlook_test

import (
	"testing"

	"chronos/node/store/outlook"
)

// TestCountString asks that a floor cannot be taken for a value, nor for what statistics expect.
func TestCountString(t *testing.T) {
	t.Parallel()
	floor := outlook.Count{N: outlook.Limit, Estimated: true}
	expected := outlook.Count{N: 12_500, Estimated: true, ByStatistics: true}
	both := floor
	both.Add(expected)
	for _, c := range []struct {
		count outlook.Count
		want  string
	}{
		{outlook.Count{}, "0"},
		{outlook.Count{N: 999}, "999"},
		{outlook.Count{N: 9999}, "9,999"},
		{floor, "10,000+"},
		{expected, "~12,500"},
		{both, "~22,500"},
		{outlook.Count{N: 3, Unknown: true}, "?"},
		{outlook.Count{N: 1_234_567}, "1,234,567"},
	} {
		if got := c.count.String(); got != c.want {
			t.Errorf("%+v is %s, want %s", c.count, got, c.want)
		}
	}
}
