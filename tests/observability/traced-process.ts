import { ROOT_CONTEXT } from '@opentelemetry/api';
import { startChildSpan, turnTracing } from 'millrace/internals';
import { startMetrics, startTracing } from 'millrace/otel';

/** A process of its own, bundled and run by `exit-flush.test.ts`: writes one span, then ends in the way its argument names. */
const tracing = startTracing(process.argv[2] === 'waits without end' ? { shutdownTimeoutMs: 3_600_000 } : {});
const turn = turnTracing({}, { taskId: 't', contextId: 'c', agentId: 'a' });
const writeSpan = (name: string) => startChildSpan(turn, name, {}, ROOT_CONTEXT).span.end();
writeSpan('last words');

/** Keeps the process alive until a signal comes. */
const stayAlive = () => setInterval(() => undefined, 60_000);

switch (process.argv[2]) {
  case 'returns':
    break;
  case 'waits':
  case 'waits without end':
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
    process.stdout.write(JSON.stringify(await tracing.shutdown()));
    break;
  }
  default:
    process.exitCode = 1;
}
process.stdout.write('\nready\n');
