import { afterAll, expect, it } from '@jest/globals';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { Command } from './command.ts';

const folder = temporaryFolder({
  'tools.ts': `const name: string = 'roll';
export default [{ name, description: 'Rolls.', parameters: { type: 'object' }, execute: (): number => 4 }];`,
});
afterAll(() => folder.remove());

it('H-44 --tools file.ts works where Node runs TypeScript, and says elsewhere what to do', async () => {
  const { exitCode, stdout, stderr } = await new Command(['run', 'Hello', '--tools', 'tools.ts'], { cwd: folder.path })
    .ended;
  // Node sets it where it strips types without a flag, from 22.18 on.
  const runsTypeScript = 'typescript' in process.features && process.features.typescript !== false;
  if (runsTypeScript) {
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining('roll')]);
  } else {
    expect([exitCode, stdout]).toEqual([2, '']);
    expect(stderr).toContain(
      `"tools.ts" cannot be loaded: Node ${process.versions.node} does not run TypeScript; use Node 22.18 or newer, or compile it`,
    );
  }
});
