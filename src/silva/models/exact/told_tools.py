"""How a model whose template knows no tools is told of them: the words the bundled model is served with."""

TOOLS = """You can call functions to help the user. The functions, as JSON:
<tools>
{tools}
</tools>
To call one, answer with its name and arguments like this, and nothing else:
<tool_call>
{{"name": "the function's name", "arguments": {{"argument": "value"}}}}
</tool_call>"""

SYSTEM = "You are a helpful assistant."
