import { AgentLoop, LocalToolProvider, tool } from 'millrace';
import { LiteLLMProvider } from 'millrace/litellm';
import { echo, echoParameters } from '../echo-tool.ts';
import { medianOf } from '../measure.ts';

const [who, what, baseUrl] = process.argv.slice(2);

const definition = {
  type: 'function',
  function: { name: 'echo', description: 'Says it again.', parameters: echoParameters },
};

/** A loop by hand; `answer` gives one answer's text and calls. */
function byHand(answer) {
  return async (prompt) => {
    const messages = [{ role: 'user', content: prompt }];
    for (;;) {
      const { text, calls } = await answer(messages);
      if (calls.length === 0) return text;
      messages.push({ role: 'assistant', content: text, tool_calls: calls });
      for (const { id, function: called } of calls) {
        messages.push({ role: 'tool', tool_call_id: id, content: await echo(JSON.parse(called.arguments)) });
      }
    }
  };
}

function collected() {
  const answer = { text: '', calls: [] };
  const take = ({ choices: [choice] }) => {
    answer.text += choice?.delta.content ?? '';
    for (const { index, ...call } of choice?.delta.tool_calls ?? []) answer.calls[index] = call;
  };
  return { answer, take };
}

const contenders = {
  fetch: () =>
    byHand(async (messages) => {
      const body = JSON.stringify({ model: 'fake', stream: true, messages, tools: [definition] });
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body });
      const { answer, take } = collected();
      let rest = '';
      for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + piece).split('\n');
        rest = lines.pop();
        for (const line of lines) {
          if (line.startsWith('data: ') && line !== 'data: [DONE]') take(JSON.parse(line.slice(6)));
        }
      }
      return answer;
    }),
  openai: async () => {
    const { OpenAI } = await import('openai');
    const client = new OpenAI({ apiKey: 'none', baseURL: baseUrl });
    return byHand(async (messages) => {
      const chunks = await client.chat.completions.create({
        model: 'fake',
        stream: true,
        messages,
        tools: [definition],
      });
      const { answer, take } = collected();
      for await (const chunk of chunks) take(chunk);
      return answer;
    });
  },
  millrace: () => {
    const execute = (args) => echo(args);
    const echoes = tool({ name: 'echo', description: 'Says it again.', parameters: echoParameters, execute });
    const loop = new AgentLoop({
      agentId: 'bench',
      llmProvider: new LiteLLMProvider({ baseUrl, apiKey: 'none', model: 'fake' }),
      toolProviders: [new LocalToolProvider([echoes])],
    });
    return async (prompt) => {
      const turn = loop.startTurn([{ role: 'user', content: prompt }]);
      turn.subscribe(() => {});
      const { text } = await turn.result();
      return text;
    };
  },
  pi: async () => (await import('./pi.mjs')).piOverHttp(baseUrl),
  'pi-0.73': async () => (await import('./pi-0.73.mjs')).pi073OverHttp(baseUrl),
  'ai-sdk': async () => (await import('./ai-sdk.mjs')).aiSdkOverHttp(baseUrl),
};

const run = await contenders[who]();

async function cpuOf(work) {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

async function checked(prompt) {
  const text = await run(prompt);
  const words = Number(prompt.split(' ')[1]);
  if (text !== 'word '.repeat(words)) throw new Error(`${who} answers ${JSON.stringify(text.slice(0, 40))}.`);
}

/** CPU milliseconds for 1,000 tokens, one turn after another. */
async function tokens() {
  const samples = [];
  for (let n = 0; n < 15; n++) samples.push(await cpuOf(() => checked('0 1000')));
  return medianOf(samples.slice(5));
}

/** Turns in a second of CPU, 200 at once, each with one tool call and fifty words. */
async function together() {
  const samples = [];
  const turns = Array.from({ length: 200 });
  for (let n = 0; n < 9; n++)
    samples.push(200 / ((await cpuOf(() => Promise.all(turns.map(() => checked('1 50'))))) / 1_000));
  return medianOf(samples.slice(4));
}

console.log(JSON.stringify(what === 'tokens' ? await tokens() : await together()));
process.exit();
