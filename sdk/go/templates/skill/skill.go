// The tools of {{name}}. There is no SDK for Go: abi.go is all there is between these functions and the contract in wit/.
package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

var tools = []Tool{{
	Name: "hello",
	// Models read the description to decide when to call the tool.
	Description: "Greets a person by name.",
	Schema: `{
		"type": "object",
		"properties": {"name": {"type": "string", "description": "Name of the person to greet."}},
		"required": ["name"],
		"additionalProperties": false
	}`,
	Run: hello,
}}

// The host has already checked the input against the schema.
func hello(input []byte) (string, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return "", err
	}
	if strings.TrimSpace(in.Name) == "" {
		return "", &Failure{Kind: "invalid-input", Message: "the name is empty"}
	}
	return fmt.Sprintf("Hello, %s!", in.Name), nil
}

// Never called, but the compiler requires it.
func main() {}
