import { HumanMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';

export function chatOf({ baseURL, apiKey, endpoint, stream, by, headers }) {
  const configuration = { baseURL, defaultHeaders: headers };
  const llm = new ChatOpenAI({ model: 'clerk', apiKey, configuration, useResponsesApi: endpoint === 'responses' });
  const messages = [];
  let last;
  const ask = async (message) => {
    messages.push(message);
    const all = by === 'history' || endpoint === 'chat';
    const options = all || !last ? {} : { previous_response_id: last.response_metadata.id };
    if (by === 'conversation') options.conversation = 'conv_1';
    const given = all ? messages : [message];
    if (stream) {
      let whole;
      for await (const chunk of await llm.stream(given, options)) whole = whole ? whole.concat(chunk) : chunk;
      last = whole;
    } else last = await llm.invoke(given, options);
    messages.push(last);
    return {
      text: last.text,
      asks: requests().map(({ name, arguments: input }) => ({ name, input: JSON.parse(input) })),
    };
  };
  const requests = () =>
    (last.response_metadata.output ?? last.additional_kwargs.tool_outputs ?? []).filter(
      ({ type }) => type === 'mcp_approval_request',
    );
  return {
    say: (content) => ask(new HumanMessage(content)),
    decide: (approve) => {
      const [{ id }] = requests();
      return ask(new HumanMessage({ content: [{ type: 'mcp_approval_response', approval_request_id: id, approve }] }));
    },
  };
}
