"""The archive of snapshots on executors: its rows, who was made from whom, and the sums of months."""
