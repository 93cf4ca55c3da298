package listener

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// DescribeCreated has the description of an operation, which is registered, say that it may answer 201, in the form of
// its 200: where something new is stored.
func DescribeCreated(api huma.API, method, path string) {
	operation := operations(api.OpenAPI().Paths[path])[method]
	ok := operation.Responses[strconv.Itoa(http.StatusOK)]
	created := *ok
	created.Description = http.StatusText(http.StatusCreated)
	operation.Responses[strconv.Itoa(http.StatusCreated)] = &created
}

// DescribeBodies has the descriptions of all operations that have a body say what Doorman and huma answer where it
// cannot be read; refused makes the description of an answer.
func DescribeBodies(api huma.API, refused func(status int) *huma.Response) {
	paths := api.OpenAPI().Paths
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		all := operations(paths[path])
		for _, method := range slices.Sorted(maps.Keys(all)) {
			if all[method].RequestBody == nil {
				continue
			}
			for _, status := range []int{
				http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
				http.StatusUnsupportedMediaType,
			} {
				all[method].Responses[strconv.Itoa(status)] = refused(status)
			}
		}
	}
}

// operations returns the operations of a path, by their methods.
func operations(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodPatch: item.Patch,
		http.MethodDelete: item.Delete,
	}
	maps.DeleteFunc(all, func(_ string, operation *huma.Operation) bool { return operation == nil })
	return all
}
