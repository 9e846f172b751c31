import OpenAI from 'openai';

const model = 'clerk';

export function chatOf({ baseURL, apiKey, endpoint, stream, by, headers }) {
  const client = new OpenAI({ baseURL, apiKey, defaultHeaders: headers });
  return endpoint === 'chat' ? completionsOf(client, stream) : responsesOf(client, { stream, by });
}

function completionsOf(client, stream) {
  const messages = [];
  return {
    async say(content) {
      messages.push({ role: 'user', content });
      let text = '';
      if (stream) {
        for await (const { choices } of await client.chat.completions.create({ model, messages, stream }))
          text += choices[0]?.delta.content ?? '';
      } else {
        const { choices } = await client.chat.completions.create({ model, messages });
        text = choices[0]?.message.content ?? '';
      }
      messages.push({ role: 'assistant', content: text });
      return { text };
    },
  };
}

function responsesOf(client, { stream, by }) {
  const history = [];
  let last;
  const ask = async (item) => {
    history.push(item);
    const before =
      by === 'history'
        ? { input: history }
        : {
            input: [item],
            ...(by === 'conversation' ? { conversation: 'conv_1' } : { previous_response_id: last?.id }),
          };
    const request = { model, ...before };
    last = stream ? await client.responses.stream(request).finalResponse() : await client.responses.create(request);
    history.push(...last.output);
    const asks = last.output.filter(({ type }) => type === 'mcp_approval_request');
    return {
      text: last.output_text,
      asks: asks.map(({ name, arguments: given }) => ({ name, input: JSON.parse(given) })),
      error: last.error ? { name: last.status, ...last.error } : undefined,
    };
  };
  return {
    say: (content) => ask({ type: 'message', role: 'user', content }),
    decide: (approve) => {
      const { id } = last.output.find(({ type }) => type === 'mcp_approval_request');
      return ask({ type: 'mcp_approval_response', approval_request_id: id, approve });
    },
  };
}
