import { cpus } from 'node:os';
import { measureA2A } from './figures/a2a.ts';
import { measureContext } from './figures/context.ts';
import { measureConversations } from './figures/conversations.ts';
import { measureDeltas } from './figures/deltas.ts';
import { measureExtensions } from './figures/extensions.ts';
import { measureFirstTurn } from './figures/first-turn.ts';
import { measureImport } from './figures/import.ts';
import { measureIterations } from './figures/iterations.ts';
import { measureManyTurns } from './figures/many-turns.ts';
import { measureTools } from './figures/tools.ts';

const figures = {
  iterations: measureIterations,
  tools: measureTools,
  deltas: measureDeltas,
  turns: measureManyTurns,
  import: measureImport,
  'first turn': measureFirstTurn,
  extensions: measureExtensions,
  context: measureContext,
  conversations: measureConversations,
  a2a: measureA2A,
};

const asked = process.argv.slice(2);
const [cpu] = cpus();
console.log(
  `Node ${process.version}, ${cpu?.model ?? 'unknown processor'}. Medians; what stands in brackets is the least.`,
);
for (const [name, measure] of Object.entries(figures)) {
  if (asked.length === 0 || asked.includes(name)) await measure();
}
