import { ROOT_CONTEXT } from '@opentelemetry/api';
import { startChildSpan, turnTracing } from 'millrace/internals';
import { startMetrics, startTracing } from 'millrace/otel';

/** A process of its own, bundled and run by `exit-flush.test.ts`: writes one span, then ends in the way its argument names. */
const tracing = startTracing();
const turn = turnTracing({}, { taskId: 't', contextId: 'c', agentId: 'a' });
const writeSpan = (name: string) => startChildSpan(turn, name, {}, ROOT_CONTEXT).span.end();
writeSpan('last words');

/** How long it takes the process to end from here. */
function printTimeToExit(): void {
  const before = performance.now();
  process.once('exit', () => process.stdout.write(`gone after ${performance.now() - before}\n`));
}

/** Keeps the process alive until a signal comes. */
const stayAlive = () => setInterval(() => undefined, 60_000);

switch (process.argv[2]) {
  case 'returns':
    printTimeToExit();
    break;
  case 'waits':
    stayAlive();
    break;
  case 'measures': {
    const { provider } = await startMetrics();
    provider?.getMeter('test').createCounter('turns').add(1);
    stayAlive();
    break;
  }
  case 'listens and measures': {
    const counter = (await startMetrics()).provider?.getMeter('test').createCounter('turns');
    counter?.add(1);
    const alive = stayAlive();
    process.on('SIGTERM', () => {
      process.exitCode = 7;
      counter?.add(1);
      clearInterval(alive);
    });
    break;
  }
  case 'listens': {
    const alive = stayAlive();
    process.on('SIGTERM', () => {
      process.exitCode = 7;
      process.stdout.write('SIGTERM\n');
      writeSpan('still there');
      clearInterval(alive);
    });
    break;
  }
  case 'shuts down': {
    const before = performance.now();
    printTimeToExit();
    const report = await tracing.shutdown();
    process.stdout.write(JSON.stringify({ ...report, tookMs: performance.now() - before }));
    break;
  }
  default:
    process.exitCode = 1;
}
process.stdout.write('\nready\n');
