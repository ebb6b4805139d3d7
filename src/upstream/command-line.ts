/** What the bridge decides of upstream's settings; given by flags, which upstream ranks above environment and file. */
export interface OwnedSettings {
  /** The user's own upstream flags, in upstream's form. */
  readonly passedOn: readonly string[];
  readonly configPath: string | undefined;
  readonly executablePath?: string | undefined;
  readonly headless: boolean;
  /** Undefined leaves the choice to upstream. */
  readonly sandbox?: boolean | undefined;
  readonly isolated: boolean;
  readonly userDataDir?: string | undefined;
  readonly outputDir?: string | undefined;
}

function valued(flag: string, value: string | undefined): readonly string[] {
  return value === undefined ? [] : [flag, value];
}

/** The child's arguments: the bridge's own last, so that they also win over repeated ones. */
export function childArguments(owned: OwnedSettings): readonly string[] {
  const sandbox = owned.sandbox === undefined ? [] : [owned.sandbox ? '--sandbox' : '--no-sandbox'];
  return [
    ...owned.passedOn,
    ...valued('--config', owned.configPath),
    ...valued('--executable-path', owned.executablePath),
    ...(owned.headless ? ['--headless'] : []),
    ...sandbox,
    ...(owned.isolated ? ['--isolated'] : []),
    ...valued('--user-data-dir', owned.userDataDir),
    ...valued('--output-dir', owned.outputDir),
  ];
}
