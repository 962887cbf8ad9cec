package io.staticgroup.fleet;

import io.delta.storage.CloseableIterator;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on S3, safe for independent writers.
 *
 * <p>Why: a commit is a file that must not exist yet. Delta's own log store for S3 checks and then writes, which is safe
 * only within one JVM: of two drivers the later silently overwrites the commit of the other. This store makes S3 refuse
 * the second file (`If-None-Match: *`, S3 since August 2024; Hadoop 3.5 sends it when a file is created with the option
 * below), and reports it to Delta, which then reads the other commit and commits after it or fails, as on a file system.
 *
 * <p>Remove it when Delta ships its own (delta-io/delta, pull request 7369).
 */
public final class S3ConditionalLogStore extends S3SingleDriverLogStore {

  /** Made by Delta, by name. */
  public S3ConditionalLogStore(Configuration hadoop) {
    super(hadoop);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoop) throws IOException {
    if (overwrite) {
      super.write(path, actions, true, hadoop);
      return;
    }
    FileSystem store = path.getFileSystem(hadoop);
    byte[] commit = lines(actions);
    FSDataOutputStreamBuilder<?, ?> builder = store.createFile(path).create().recursive();
    builder.must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
    FSDataOutputStream file = builder.build();
    file.write(commit);
    try {
      file.close(); // nothing is in the store before
    } catch (IOException refused) {
      judge(refused, store, path, commit);
    }
  }

  /**
   * A refusal may be false: when a response was lost, the client sends again, and the store refuses the client's own
   * file. Each commit contains its transaction's id, so equal bytes are the same commit.
   */
  private static void judge(IOException refused, FileSystem store, Path path, byte[] commit) throws IOException {
    byte[] there;
    try (InputStream file = store.open(path)) {
      there = file.readAllBytes();
    } catch (FileNotFoundException nobody) {
      throw refused;
    } catch (IOException unknown) {
      refused.addSuppressed(unknown);
      throw refused;
    }
    if (!Arrays.equals(there, commit)) {
      FileAlreadyExistsException lost = new FileAlreadyExistsException(path.toString());
      lost.initCause(refused);
      throw lost;
    }
  }

  private static byte[] lines(Iterator<String> actions) throws IOException {
    StringBuilder text = new StringBuilder();
    try {
      actions.forEachRemaining(action -> text.append(action).append('\n'));
    } finally {
      if (actions instanceof CloseableIterator<String> open) {
        open.close();
      }
    }
    return text.toString().getBytes(StandardCharsets.UTF_8);
  }
}
