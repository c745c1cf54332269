import java.time.LocalDate;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

import org.apache.paimon.AppendOnlyFileStore;
import org.apache.paimon.Snapshot;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.AppendDeleteFileMaintainer;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.operation.CleanOrphanFilesResult;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.table.ExpireSnapshots;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.DataTableBatchScan;
import org.apache.paimon.table.source.ReadBuilderImpl;
import org.apache.paimon.table.source.ScanMode;
import org.apache.paimon.table.source.snapshot.SnapshotReader;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.CloseableIterator;
import org.apache.paimon.utils.TypeUtils;

/**
 * Paimon's own Java library, one call a deed: text and JSON in, JSON out.
 *
 * <p>Python alone would need several calls a row, and cannot reach methods that an interface gives to a package-private
 * class. The small compiler that Spark carries (Janino) compiles this in the running JVM, so no JDK is needed; it knows
 * Java of the old kind only: no lambdas, no inferred types.
 */
public class Peer {
    private static final ObjectMapper JSON = new ObjectMapper();

    public FileStoreTable open(String location, String branch, String options) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(location));
        if (!branch.equals("main")) {
            table = table.switchToBranch(branch);
        }
        return table.copy((Map) JSON.readValue(options, HashMap.class));
    }

    /** Every row the table shows, [[value, …], …]; `scan.snapshot-id` or `scan.tag-name` in the options says where. */
    public String rows(String location, String branch, String options) throws Exception {
        FileStoreTable table = open(location, branch, options);
        return read(table, new ReadBuilderImpl(table).newScan().plan().splits(), false);
    }

    /** As rows, for a tag of a branch: Java's own scan looks for every tag in main, whatever the branch. */
    public String rowsOfTag(String location, String branch, String tag) throws Exception {
        FileStoreTable table = open(location, branch, "{}");
        Snapshot snapshot = table.tagManager().getOrThrow(tag).trimToSnapshot();
        // The reader of a batch scan: it knows that readers of deletion vectors skip what no compaction has seen.
        SnapshotReader reader = ((DataTableBatchScan) table.newScan()).snapshotReader();
        return read(table, reader.withMode(ScanMode.ALL).withSnapshot(snapshot).read().splits(), false);
    }

    /** What one commit changed, [[kind, value, …], …]: its changelog files, or its new files where it has none. */
    public String changes(String location, String branch, long id) throws Exception {
        FileStoreTable table = open(location, branch, "{}");
        Snapshot snapshot = table.changelogManager().longLivedChangelogExists(id)
            ? (Snapshot) table.changelogManager().longLivedChangelog(id)
            : table.snapshotManager().snapshot(id);
        ScanMode mode = snapshot.changelogManifestList() == null ? ScanMode.DELTA : ScanMode.CHANGELOG;
        return read(table, table.newSnapshotReader().withMode(mode).withSnapshot(snapshot).read().splits(), true);
    }

    /** As rows, each with its id and the snapshot that last changed it. */
    public String trackedRows(String location) throws Exception {
        FileStoreTable table = open(location, "main", "{}");
        RowType type = SpecialFields.rowTypeWithRowTracking(table.rowType());
        return read(table, new ReadBuilderImpl(table).newScan().plan().splits(), false, type);
    }

    /** A commit that deletes rows by their places, {file: [place, …]}, all of one partition of a table without buckets. */
    public void deletePlaces(String location, String places) throws Exception {
        FileStoreTable table = open(location, "main", "{}");
        Snapshot latest = table.snapshotManager().latestSnapshot();
        Map wanted = (Map) JSON.readValue(places, HashMap.class);
        List files = table.newSnapshotReader().read().dataSplits();
        BinaryRow partition = null;
        for (int n = 0; n < files.size(); n++) {
            DataSplit split = (DataSplit) files.get(n);
            for (int m = 0; m < split.dataFiles().size(); m++) {
                if (wanted.containsKey(((DataFileMeta) split.dataFiles().get(m)).fileName())) {
                    partition = split.partition();
                }
            }
        }
        AppendDeleteFileMaintainer vectors = BaseAppendDeleteFileMaintainer.forUnawareAppend(
            table.store().newIndexFileHandler(), latest, partition);
        List names = new ArrayList(wanted.keySet());
        for (int n = 0; n < names.size(); n++) {
            DeletionVector vector = table.coreOptions().deletionVectorBitmap64()
                ? (DeletionVector) new Bitmap64DeletionVector() : (DeletionVector) new BitmapDeletionVector();
            List each = (List) wanted.get(names.get(n));
            for (int m = 0; m < each.size(); m++) {
                vector.delete(((Number) each.get(m)).longValue());
            }
            vectors.notifyNewDeletionVector((String) names.get(n), vector);
        }
        List added = new ArrayList();
        List gone = new ArrayList();
        List entries = vectors.persist();
        for (int n = 0; n < entries.size(); n++) {
            IndexManifestEntry entry = (IndexManifestEntry) entries.get(n);
            (entry.kind() == FileKind.ADD ? added : gone).add(entry.indexFile());
        }
        DataIncrement change = new DataIncrement(new ArrayList(), new ArrayList(), new ArrayList(), added, gone);
        List messages = new ArrayList();
        messages.add(new CommitMessageImpl(
            partition, 0, Integer.valueOf(-1), change, CompactIncrement.emptyIncrement()));
        TableCommitImpl commit = table.newCommit(UUID.randomUUID().toString());
        commit.commit(0L, messages);
        commit.close();
    }

    /** Paimon's own compaction of a table without buckets; how many groups of files it found. */
    public int compactAppend(String location, String options) throws Exception {
        FileStoreTable table = open(location, "main", options);
        String user = UUID.randomUUID().toString();
        List tasks = new AppendCompactCoordinator(table, false).run();
        List messages = new ArrayList();
        for (int n = 0; n < tasks.size(); n++) {
            BaseAppendFileStoreWrite write = ((AppendOnlyFileStore) table.store()).newWrite(user);
            if (table.coreOptions().rowTrackingEnabled()) {
                write.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
            }
            messages.add(((AppendCompactTask) tasks.get(n)).doCompact(table, write));
        }
        TableCommitImpl commit = table.newCommit(user);
        commit.commit(0L, messages);
        commit.close();
        return tasks.size();
    }

    private String read(FileStoreTable table, List splits, boolean kinds) throws Exception {
        return read(table, splits, kinds, table.rowType());
    }

    private String read(FileStoreTable table, List splits, boolean kinds, RowType type) throws Exception {
        InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[type.getFieldCount()];
        for (int i = 0; i < getters.length; i++) {
            getters[i] = InternalRow.createFieldGetter(type.getTypeAt(i), i);
        }
        List rows = new ArrayList();
        CloseableIterator each = new ReadBuilderImpl(table).withReadType(type).newRead().createReader(splits).toCloseableIterator();
        while (each.hasNext()) {
            InternalRow row = (InternalRow) each.next();
            List values = new ArrayList();
            if (kinds) {
                values.add(row.getRowKind().shortString());
            }
            for (int i = 0; i < getters.length; i++) {
                values.add(plain(getters[i].getFieldOrNull(row), type.getTypeAt(i)));
            }
            rows.add(values);
        }
        each.close();
        return JSON.writeValueAsString(rows);
    }

    private Object plain(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        if (type.getTypeRoot() == DataTypeRoot.DATE) {
            return LocalDate.ofEpochDay(((Number) value).longValue()).toString();
        }
        if (value instanceof Timestamp) {
            return DateTimeFormatter.ISO_LOCAL_DATE_TIME.format(((Timestamp) value).toLocalDateTime());
        }
        return value instanceof Number ? value : value.toString();
    }

    /**
     * One commit of rows, [[kind, value as text, …], …].
     *
     * <p>A bucket below 0 leaves the choice to the table; a partition to overwrite may be null; `compact` ends with a full
     * compaction of the buckets that were written.
     */
    public void write(
            String location, String branch, String options, String rows, int bucket, String overwrite, boolean compact,
            String scratch) throws Exception {
        FileStoreTable table = open(location, branch, options);
        String user = UUID.randomUUID().toString();
        IOManager disk = IOManager.create(scratch);
        TableWriteImpl write = table.newWrite(user);
        write.withIOManager(disk);
        write.withIgnorePreviousFiles(overwrite != null);
        List touched = new ArrayList();
        List given = (List) JSON.readValue(rows, ArrayList.class);
        for (int n = 0; n < given.size(); n++) {
            GenericRow row = row(table.rowType(), (List) given.get(n));
            if (bucket < 0) {
                write.write(row);
            } else {
                write.write(row, bucket);
            }
            List place = new ArrayList();
            place.add(write.getPartition(row).copy());
            place.add(Integer.valueOf(bucket < 0 ? write.getBucket(row) : bucket));
            if (!touched.contains(place)) {
                touched.add(place);
            }
        }
        for (int n = 0; compact && n < touched.size(); n++) {
            List place = (List) touched.get(n);
            write.compact((BinaryRow) place.get(0), ((Integer) place.get(1)).intValue(), true);
        }
        commit(table, user, write, overwrite);
        disk.close();
    }

    /** A full compaction of one bucket; the partition is named by values as text, in the order of the partition keys. */
    public void compact(String location, String branch, String options, String partition, int bucket, String scratch)
            throws Exception {
        FileStoreTable table = open(location, branch, options);
        String user = UUID.randomUUID().toString();
        IOManager disk = IOManager.create(scratch);
        TableWriteImpl write = table.newWrite(user);
        write.withIOManager(disk);
        List partitions = table.newSnapshotReader().partitions();
        List wanted = (List) JSON.readValue(partition, ArrayList.class);
        RowType type = table.schema().logicalPartitionType();
        for (int n = 0; n < partitions.size(); n++) {
            BinaryRow present = (BinaryRow) partitions.get(n);
            boolean same = true;
            for (int i = 0; i < wanted.size(); i++) {
                Object value = InternalRow.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(present);
                same = same && String.valueOf(value).equals(String.valueOf(wanted.get(i)));
            }
            if (same) {
                write.compact(present, bucket, true);
            }
        }
        commit(table, user, write, null);
        disk.close();
    }

    private void commit(FileStoreTable table, String user, TableWriteImpl write, String overwrite) throws Exception {
        TableCommitImpl commit = table.newCommit(user);
        if (overwrite != null) {
            commit.withOverwrite((Map) JSON.readValue(overwrite, HashMap.class));
        }
        commit.commit(0L, write.prepareCommit(true, 0L));
        write.close();
        commit.close();
    }

    private GenericRow row(RowType type, List values) {
        GenericRow row = new GenericRow(type.getFieldCount());
        row.setRowKind(RowKind.fromShortString((String) values.get(0)));
        for (int i = 0; i < type.getFieldCount(); i++) {
            String text = (String) values.get(i + 1);
            row.setField(i, text == null ? null : TypeUtils.castFromString(text, type.getTypeAt(i)));
        }
        return row;
    }

    public void truncate(String location, String branch, String partitions) throws Exception {
        TableCommitImpl commit = open(location, branch, "{}").newCommit(UUID.randomUUID().toString());
        commit.truncatePartitions((List) JSON.readValue(partitions, ArrayList.class));
        commit.close();
    }

    /** What ANALYZE leaves: table statistics of the latest snapshot, in a snapshot of their own. */
    public void analyze(String location, String branch) throws Exception {
        FileStoreTable table = open(location, branch, "{}");
        Snapshot latest = table.snapshotManager().latestSnapshot();
        TableCommitImpl commit = table.newCommit(UUID.randomUUID().toString());
        Long records = Long.valueOf(latest.totalRecordCount());
        commit.updateStatistics(new Statistics(latest.id(), latest.schemaId(), records, records));
        commit.close();
    }

    public void compactManifests(String location, String branch) throws Exception {
        TableCommitImpl commit = open(location, branch, "{}").newCommit(UUID.randomUUID().toString());
        commit.compactManifests();
        commit.close();
    }

    public void createTag(String location, String branch, String tag, long snapshot) throws Exception {
        open(location, branch, "{}").createTag(tag, snapshot);
    }

    public void deleteTag(String location, String branch, String tag) throws Exception {
        open(location, branch, "{}").deleteTag(tag);
    }

    public void createBranch(String location, String name, String tag) throws Exception {
        open(location, "main", "{}").createBranch(name, tag);
    }

    public void fastForward(String location, String name) throws Exception {
        open(location, "main", "{}").fastForward(name);
    }

    public void rollback(String location, String branch, long snapshot) throws Exception {
        open(location, branch, "{}").rollbackTo(snapshot);
    }

    /** [count, bytes, [path, …]] of the files Java calls orphans; without a dry run they are gone. */
    public String orphans(String location, long olderThan, boolean dryRun) throws Exception {
        CleanOrphanFilesResult result = new LocalOrphanFilesClean(open(location, "main", "{}"), olderThan, dryRun).clean();
        List paths = new ArrayList();
        for (int n = 0; n < result.getDeletedFilesPath().size(); n++) {
            paths.add(result.getDeletedFilesPath().get(n).toString());
        }
        List answer = new ArrayList();
        answer.add(Long.valueOf(result.getDeletedFileCount()));
        answer.add(Long.valueOf(result.getDeletedFileTotalLenInBytes()));
        answer.add(paths);
        return JSON.writeValueAsString(answer);
    }

    /** The number of snapshots, or of changelogs, that expired by the table's options and those given. */
    public int expire(String location, String branch, String options, boolean changelogs) throws Exception {
        FileStoreTable table = open(location, branch, options);
        ExpireSnapshots expire = changelogs ? table.newExpireChangelog() : table.newExpireSnapshots();
        expire.config(table.coreOptions().expireConfig());
        return expire.expire();
    }

    /** [{key: value}, …] of the partitions that Java's partition expiry dropped. */
    public String expirePartitions(String location, String branch, String options) throws Exception {
        FileStoreTable table = open(location, branch, options);
        List dropped = table.store().newPartitionExpire(UUID.randomUUID().toString(), table).expire(Long.MAX_VALUE);
        return JSON.writeValueAsString(dropped == null ? new ArrayList() : dropped);
    }
}
