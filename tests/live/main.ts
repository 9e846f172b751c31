import { runLive } from './live.ts';

process.exitCode = await runLive(process.argv.slice(2), {
  env: process.env,
  write: (text) => void process.stdout.write(text),
});
