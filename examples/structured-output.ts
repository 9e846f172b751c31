import { AgentLoop, agent, LocalToolProvider, structuredOutput, tool, typedInput } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { z } from 'zod';

const output = structuredOutput({
  schema: z.object({ city: z.string(), celsius: z.number(), advice: z.string() }),
});
const input = typedInput({ schema: z.object({ city: z.string(), day: z.iso.date() }) });

const temperature = tool({
  name: 'temperature',
  description: 'Tells the temperature in a city.',
  parameters: z.object({ city: z.string() }),
  execute: () => 4,
});

const loop = new AgentLoop({
  agentId: 'forecast',
  systemPrompt: 'You advise what to wear.',
  toolProviders: [new LocalToolProvider([temperature])],
  extensions: [output],
  llmProvider: scriptedLLM([
    { toolCalls: [{ name: 'temperature', arguments: { city: 'Oslo' } }] },
    // An invalid output: the model reads the error, and tries again.
    { toolCalls: [{ name: '__finish__', arguments: { city: 'Oslo', celsius: 'four' } }] },
    {
      toolCalls: [
        { name: '__finish__', arguments: ['{"city":"Oslo","cel', 'sius":4,"advi', 'ce":"Take a ', 'coat."}'] },
      ],
    },
  ]),
});

const turn = loop.startTurn(await input.messages({ city: 'Oslo', day: '2030-01-01' }));
output.partials(turn).subscribe((partial) => console.log('so far', JSON.stringify(partial)));

const result = await turn.result();
for (const message of result.messages) if (message.role === 'tool') console.log('tool  ', message.content);
const { city, celsius, advice } = output.outputOf(result);
console.log(`${city}, ${celsius.toFixed(1)} °C: ${advice}`);

// An agent with an output schema returns a typed value.
const bergen = { toolCalls: [{ name: '__finish__', arguments: { city: 'Bergen', celsius: 7 } }] };
const forecaster = agent({
  provider: scriptedLLM([bergen]),
  outputSchema: z.object({ city: z.string(), celsius: z.number() }),
});
const { value } = await forecaster.run('How cold is it in Bergen?');
console.log(value && `${value.city}, ${value.celsius.toFixed(1)} °C`);
await forecaster.close();
