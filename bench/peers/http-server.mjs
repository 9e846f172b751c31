import { createServer } from 'node:http';

/** A model server: it asks for a tool as often as a message says, then answers with as many words. */
const server = createServer(async (request, response) => {
  let body = '';
  for await (const piece of request) body += piece;
  const { messages } = JSON.parse(body);
  const asked = messages.find(({ role }) => role === 'user').content;
  const text = typeof asked === 'string' ? asked : asked[0].text;
  const [calls, words] = text.split(' ').map(Number);
  const done = messages.filter(({ role }) => role === 'tool').length;
  const base = { id: 'c', object: 'chat.completion.chunk', created: 0, model: 'fake' };
  const send = (delta, finish_reason = null) =>
    response.write(`data: ${JSON.stringify({ ...base, choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  send({ role: 'assistant', content: '' });
  if (done < calls) {
    const called = { name: 'echo', arguments: '{"text":"hello","times":2}' };
    send({ tool_calls: [{ index: 0, id: `call-${done}`, type: 'function', function: called }] });
    send({}, 'tool_calls');
  } else {
    for (let word = 0; word < words; word++) send({ content: 'word ' });
    send({}, 'stop');
  }
  const usage = { prompt_tokens: 10, completion_tokens: words, total_tokens: words + 10 };
  response.write(`data: ${JSON.stringify({ ...base, choices: [], usage })}\n\n`);
  response.end('data: [DONE]\n\n');
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit()).resume();
